"""Recurrent encoder and decoder with attention, the architecture before the Transformer.

The network of Bahdanau et al. (2015, "Neural Machine Translation by Jointly Learning to Align and
Translate", appendix A), instead of the Transformer's encoder and decoder. Departures:

- LSTM cells, with 1 as the bias of the forget gate, instead of gated recurrent units. The initial
  cell state is computed like the initial hidden state: tanh of a projection, with its own weights.
- The output layer is tanh(U s_i + V E y_i-1 + C c_i). The paper's has the previous state s_i-1, and
  maxout over pairs of units instead of tanh.
- Dropout of embeddings, layer outputs and the output layer (Zaremba et al. 2014), never between
  two positions. Embeddings and output projection may share their matrix.
- Any number of layers. Only the first layer of the decoder attends, as in GNMT (Wu et al. 2016):
  the others run after its loop.

No positional encoding is needed: a state depends on the order of the tokens read so far.

Shapes: see `model`. The encoder's output is 2 D wide, both directions side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.config import ConfigError, ModelConfig
from keras_transformer.model.configured_layer import ConfiguredLayer
from keras_transformer.model.kernels.dropout import Dropout
from keras_transformer.model.kernels.linear import project
from keras_transformer.model.variants.additive_attention import AdditiveAttention, AttentionSource
from keras_transformer.model.variants.lstm import LstmCell, loop, lstm_step, run_lstm
from keras_transformer.model.variants.no_positions import NoPositionalEncoding


class LstmState(NamedTuple):
    """State of one layer of the decoder, for R rows."""

    hidden: tf.Tensor
    """(R, D)."""
    cell: tf.Tensor
    """(R, D) float32."""


@keras.saving.register_keras_serializable("keras_transformer")
class RecurrentEncoder(ConfiguredLayer):
    """Bidirectional LSTM layers (Bahdanau et al. 2015, section 3.2).

    Args:
        config: The model's configuration.
        gradient_checkpointing: False: recurrent layers have none.
        kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        ConfigError: Gradient checkpointing is on.
    """

    def __init__(
        self,
        config: ModelConfig | dict[str, Any],
        gradient_checkpointing: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        _refuse_checkpointing(gradient_checkpointing)
        width, layers = self.config.d_model, self.config.encoder_layers
        options = {"dtype": self.dtype_policy}
        widths = [width] + [2 * width] * (layers - 1)
        self.forward_cells = [
            LstmCell(inputs, width, name=f"forward_{i}", **options)
            for i, inputs in enumerate(widths)
        ]
        self.backward_cells = [
            LstmCell(inputs, width, name=f"backward_{i}", **options)
            for i, inputs in enumerate(widths)
        ]
        self.dropouts = [Dropout(self.config.dropout, **options) for _ in widths]

    def build(self, *_: Any) -> None:
        for cell in (*self.forward_cells, *self.backward_cells):
            cell.build()
        self.built = True

    def call(self, x: tf.Tensor, source_mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Encode embedded source sentences.

        Args:
            x: (B, S, D) embeddings.
            source_mask: Boolean (B, 1, 1, S), True at real tokens, which come first.
            training: Whether dropout is on.

        Returns:
            (B, S, 2 D): at each token the state of the forward LSTM, which has read from the first
            token to it, and of the backward LSTM, which has read from the last token to it.
        """
        lengths = tf.reduce_sum(tf.cast(source_mask[:, 0, 0], tf.int32), axis=1)  # (B,)
        zeros = tf.zeros([tf.shape(x)[0], self.config.d_model])
        for forward, backward, dropout in zip(
            self.forward_cells, self.backward_cells, self.dropouts, strict=True
        ):
            # Padding stays at the end: the backward LSTM begins with the last real token.
            reversed_x = tf.reverse_sequence(x, lengths, seq_axis=1)
            initial = tf.cast(zeros, x.dtype), zeros
            ahead = run_lstm(forward, x, *initial)  # (B, S, D)
            back = run_lstm(backward, reversed_x, *initial)
            back = tf.reverse_sequence(back, lengths, seq_axis=1)
            x = dropout(tf.concat([ahead, back], axis=-1), training=training)  # (B, S, 2 D)
        return x

    def compute_output_spec(self, x: Any, *_: Any, **__: Any) -> Any:
        return keras.KerasTensor((*x.shape[:2], 2 * self.config.d_model), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable("keras_transformer")
class RecurrentDecoder(ConfiguredLayer):
    """LSTM layers, the first with attention to the source (Bahdanau et al. 2015, section 3.1).

    Args:
        config: The model's configuration.
        gradient_checkpointing: False: recurrent layers have none.
        kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        ConfigError: Gradient checkpointing is on.
    """

    def __init__(
        self,
        config: ModelConfig | dict[str, Any],
        gradient_checkpointing: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, **kwargs)
        _refuse_checkpointing(gradient_checkpointing)
        width, layers = self.config.d_model, self.config.decoder_layers
        options = {"dtype": self.dtype_policy}
        self.attention = AdditiveAttention(width, 2 * width, name="attention", **options)
        # The first layer reads the embedding and the context vector.
        self.cells = [
            LstmCell(width if i else 3 * width, width, name=f"cell_{i}", **options)
            for i in range(layers)
        ]
        self.dropouts = [Dropout(self.config.dropout, **options) for _ in range(layers)]

    def build(self, *_: Any) -> None:
        width, layers = self.config.d_model, self.config.decoder_layers
        self.attention.build()
        for cell in self.cells:
            cell.build()
        states = 2 * layers * width
        self.initial_kernel = self.add_weight(name="initial_kernel", shape=(width, states))
        self.initial_bias = self.add_weight(
            name="initial_bias", shape=(states,), initializer="zeros"
        )
        self.output_kernel = self.add_weight(name="output_kernel", shape=(4 * width, width))
        self.output_bias = self.add_weight(name="output_bias", shape=(width,), initializer="zeros")
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        target_mask: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, list[tf.Tensor]]:
        """Decode all target positions, one after the other.

        Args:
            x: (B, T, D) embeddings.
            memory: (B, S, 2 D), the encoder's output.
            target_mask: Not used: padding comes last, and a state never depends on later tokens.
            source_mask: Boolean (B, 1, 1, S), True at real source tokens.
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too.

        Returns:
            (B, T, D), and with ``return_weights`` also a list of one tensor (B, 1, T, S) float32:
            the attention weights; those of position t serve to predict the token after it.
        """
        source = self.attention.source(memory, source_mask)
        first, *others = self.initial_states(memory)
        hidden, contexts, weights = self._attention_layer(x, source, first)
        for cell, state, dropout in zip(self.cells[1:], others, self.dropouts, strict=False):
            inputs = dropout(hidden, training=training)
            hidden = run_lstm(cell, inputs, state.hidden, state.cell)
        features = self.output_layer(hidden, contexts, x)
        features = self.dropouts[-1](features, training=training)
        return (features, [weights]) if return_weights else features

    def initial_states(self, memory: tf.Tensor) -> list[LstmState]:
        """Return the state of each layer before the first position (appendix A.2.2).

        Args:
            memory: (B, S, 2 D). At the first token the backward LSTM has read the whole source.
        """
        backward = memory[:, 0, self.config.d_model :]  # (B, D)
        states = tf.tanh(project(backward, self.initial_kernel, self.initial_bias))
        parts = tf.split(states, 2 * len(self.cells), axis=1)
        return [
            LstmState(hidden, tf.cast(cell, tf.float32))
            for hidden, cell in zip(parts[::2], parts[1::2], strict=True)
        ]

    def _attention_layer(
        self, x: tf.Tensor, source: AttentionSource, state: LstmState
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Run the first layer over all positions.

        Returns:
            The hidden states (B, T, D), context vectors (B, T, 2 D) and weights (B, 1, T, S).
        """
        kernel = self.attention_lstm_kernel()

        def step(gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor) -> Any:
            state, context, weights = self.attention_step(
                gates, LstmState(hidden, cell), source, kernel
            )
            return tuple(state), (state.hidden, context, weights)

        hidden, values = state.hidden, source.values
        specs = [
            tf.TensorSpec(hidden.shape, hidden.dtype),
            tf.TensorSpec([values.shape[0], values.shape[2]], values.dtype),
            tf.TensorSpec(values.shape[:2], tf.float32),
        ]
        gates = self.embedding_gates(tf.transpose(x, [1, 0, 2]))  # (T, B, 4 D)
        states, contexts, weights = loop(step, gates, tuple(state), specs)
        states, contexts = (tf.transpose(part, [1, 0, 2]) for part in (states, contexts))
        return states, contexts, tf.transpose(weights, [1, 0, 2])[:, None]

    def embedding_gates(self, x: tf.Tensor) -> tf.Tensor:
        """Return the embeddings' (..., D) share of the first layer's gates, (..., 4 D)."""
        cell = self.cells[0]
        kernel = tf.convert_to_tensor(cell.input_kernel)[: self.config.d_model]
        return project(x, kernel, cell.bias)  # (..., 4 D)

    def attention_lstm_kernel(self) -> tf.Tensor:
        """Return the first layer's kernel for context vector and hidden state, (3 D, 4 D)."""
        cell = self.cells[0]
        context_kernel = tf.convert_to_tensor(cell.input_kernel)[self.config.d_model :]
        kernel = tf.concat([context_kernel, tf.convert_to_tensor(cell.recurrent_kernel)], axis=0)
        return tf.cast(kernel, self.compute_dtype)

    def attention_step(
        self,
        gates: tf.Tensor,
        state: LstmState,
        source: AttentionSource,
        kernel: tf.Tensor,
        beam: int = 1,
    ) -> tuple[LstmState, tf.Tensor, tf.Tensor]:
        """Attend with the previous state, then update the state (one position of the first layer).

        Args:
            gates: (R, 4 D) from `embedding_gates`; the W rows of a sentence are adjacent.
            state: The state before this position.
            source: From `AdditiveAttention.source`, one row for each sentence.
            kernel: From `attention_lstm_kernel`.
            beam: W.

        Returns:
            The new state, the context vectors (R, 2 D), and the weights (R, S) float32.
        """
        width = self.config.d_model
        queries = tf.reshape(state.hidden, [-1, beam, width])  # (B, W, D)
        contexts, weights = self.attention(queries, source)
        contexts = tf.reshape(contexts, [-1, 2 * width])  # (R, 2 D)
        gates += tf.matmul(tf.concat([contexts, state.hidden], axis=1), kernel)
        state = LstmState(*lstm_step(gates, state.cell))
        weights = tf.reshape(weights, [-1, tf.shape(weights)[2]])  # (R, S)
        return state, contexts, weights

    def output_layer(self, hidden: tf.Tensor, contexts: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """Combine state (..., D), context (..., 2 D) and embedding (..., D): (..., D)."""
        joint = tf.concat([hidden, contexts, x], axis=-1)
        return tf.tanh(project(joint, self.output_kernel, self.output_bias))

    def compute_output_spec(self, x: Any, memory: Any, *_: Any, **options: Any) -> Any:
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (x.shape[0], 1, x.shape[1], memory.shape[1])
        return output, [keras.KerasTensor(shape, dtype="float32")]


def embedding_dropout(config: ModelConfig, **options: Any) -> NoPositionalEncoding:
    """Build the dropout of embeddings, instead of a positional encoding."""
    return NoPositionalEncoding(config.dropout, **options)


def _refuse_checkpointing(gradient_checkpointing: bool) -> None:
    if gradient_checkpointing:
        raise ConfigError(
            "train.gradient_checkpointing: expected false for model.architecture recurrent, "
            "got true"
        )
