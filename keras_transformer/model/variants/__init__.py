"""Components that the paper does not have, each chosen by name in the configuration.

To add one:

1. Write a file here with a layer that has the interface of the paper's component, usually a
   subclass that overrides one method: `SublayerConnection.call`,
   `PositionalEncoding.add_encoding`, `MultiHeadAttention.encode_positions` or `.score_bias`.
   Register the class with `keras.saving.register_keras_serializable("keras_transformer")`.
2. Give it a name: one line in a table of `model/components.py`. A choice that there is no table
   for yet gets a table there, and a function that the layers call.
3. Add the name to the option's choices in `config/model.py`.

The paper's files stay as they are. A variant may import them, never `encoder`, `decoder` or
`transformer`, which are composed of it. Another kind of encoder or decoder is chosen in
`transformer.build`. Incremental decoding calls the same methods: its test runs over every name.
"""
