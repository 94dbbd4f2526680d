"""Components beyond the paper, each chosen by name in the configuration.

To add one:

1. Write a file here with a layer that has the interface of the paper's component, usually a
   subclass that overrides one method: `SublayerConnection.call`,
   `PositionalEncoding.add_encoding`, `MultiHeadAttention.encode_positions` or `.score_bias`,
   `FeedForward.activate`.
   Register the class with `keras.saving.register_keras_serializable("keras_transformer")`.
2. Give it a name: one line in a table of `model/components.py`. For a new option, add a table
   there and a function that the layers call.
3. Add the name to the option's choices in `config/model.py`.

The paper's files stay unchanged. A variant may import them, but not `encoder`, `decoder` or
`transformer`, which use the variants. Incremental decoding calls the same methods, and its test
covers every name.

Another kind of encoder and decoder, such as `recurrent`, has a line in
`transformer.ARCHITECTURES`, and a class for decoding step by step in
`incremental.factory.INCREMENTAL_DECODERS`.
"""
