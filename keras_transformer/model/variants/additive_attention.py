"""Additive attention (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

Shapes: see `model`; W queries of each sentence, M width of the encoder's output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model.kernels.linear import project
from keras_transformer.model.masks import MASK_VALUE


class AttentionSource(NamedTuple):
    """The encoder's output, prepared once for all positions of the decoder."""

    keys: tf.Tensor
    """(B, S, D), U h_j."""
    values: tf.Tensor
    """(B, S, M), h_j, and 0 at padding."""
    bias: tf.Tensor
    """(B, 1, S) float32, 0 at real tokens and ``MASK_VALUE`` at padding."""


@keras.saving.register_keras_serializable("keras_transformer")
class AdditiveAttention(keras.layers.Layer):
    """Attention with the score e_ij = v · tanh(W s_i-1 + U h_j), a small network.

    Args:
        units: D, width of the queries and of the hidden layer.
        memory_width: M.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(self, units: int, memory_width: int, **kwargs: Any) -> None:
        # The additive mask stays in float32; `project` casts the kernels.
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.memory_width = memory_width

    def build(self, *_: Any) -> None:
        self.query_kernel = self.add_weight(name="query_kernel", shape=(self.units, self.units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(self.memory_width, self.units))
        self.score_kernel = self.add_weight(name="score_kernel", shape=(self.units, 1))
        self.built = True

    def source(self, memory: tf.Tensor, source_mask: tf.Tensor) -> AttentionSource:
        """Return keys, values and mask, which do not depend on the query.

        Args:
            memory: (B, S, M), the encoder's output.
            source_mask: Boolean (B, 1, 1, S), True at real tokens.
        """
        mask = source_mask[:, 0]  # (B, 1, S)
        # If a source is only padding, its weights are uniform: zero values give a zero context.
        values = memory * tf.cast(tf.transpose(mask, [0, 2, 1]), memory.dtype)
        bias = tf.where(mask, 0.0, MASK_VALUE)
        return AttentionSource(project(memory, self.key_kernel), values, bias)

    def call(self, queries: tf.Tensor, source: AttentionSource) -> tuple[tf.Tensor, tf.Tensor]:
        """Attend from W queries of each sentence.

        Args:
            queries: (B, W, D), s_i-1.
            source: From `source`.

        Returns:
            The context vectors (B, W, M), and the weights (B, W, S) float32.
        """
        queries = project(queries, self.query_kernel)
        hidden = tf.tanh(queries[:, :, None] + source.keys[:, None])  # (B, W, S, D)
        kernel = tf.cast(tf.convert_to_tensor(self.score_kernel), hidden.dtype)
        scores = tf.matmul(tf.reshape(hidden, [-1, self.units]), kernel)  # (B * W * S, 1)
        scores = tf.reshape(tf.cast(scores, tf.float32), tf.shape(hidden)[:3])  # (B, W, S)
        weights = tf.nn.softmax(scores + source.bias)
        return tf.matmul(tf.cast(weights, source.values.dtype), source.values), weights

    def compute_output_spec(self, queries: Any, source: Any) -> Any:
        batch, beam, _ = queries.shape
        context = keras.KerasTensor((batch, beam, self.memory_width), queries.dtype)
        return context, keras.KerasTensor((batch, beam, source.keys.shape[1]))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"units": self.units, "memory_width": self.memory_width}
