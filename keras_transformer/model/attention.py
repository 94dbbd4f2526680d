"""Scaled dot-product attention and multi-head attention (sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.blockwise_attention import blockwise_attention
from keras_transformer.model.kernels.dropout import Dropout
from keras_transformer.model.kernels.linear import project
from keras_transformer.model.masks import MASK_VALUE, look_ahead_mask


def scaled_dot_product_attention(
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    mask: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
    dropout: Callable[[tf.Tensor], tf.Tensor] | None = None,
    scale: float | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return softmax(Q Kᵀ / sqrt(d_k)) V, equation 1.

    Args:
        queries: (..., T, K).
        keys: (..., S, K).
        values: (..., S, K'), where K' may differ from K.
        mask: Boolean, broadcasts to (..., T, S); True where a query may attend to a key.
            A query that may attend to nothing gets weights and output of zero.
        bias: Added to the scores before the softmax; broadcasts to (..., T, S).
        dropout: Applied to the weights.
        scale: Factor of the scores; None: 1 / sqrt(d_k).

    Returns:
        The output (..., T, K') and the weights (..., T, S) before dropout, float32.
    """
    # Scaling the queries takes T * K products, scaling the scores T * S.
    scale = keys.shape[-1] ** -0.5 if scale is None else scale
    scores = tf.matmul(queries * scale, keys, transpose_b=True)  # (..., T, S)
    # In float32: 16-bit floats lose the tail of a softmax.
    scores = tf.cast(scores, tf.float32)
    if bias is not None:
        scores += tf.cast(bias, tf.float32)
    if mask is None:
        weights = tf.nn.softmax(scores)
    else:
        weights = tf.nn.softmax(tf.where(mask, scores, MASK_VALUE))
        # A query whose keys are all masked would attend to all of them evenly.
        weights *= tf.cast(tf.reduce_any(mask, axis=-1, keepdims=True), tf.float32)
    dropped = weights if dropout is None else dropout(weights)
    return tf.matmul(tf.cast(dropped, values.dtype), values), weights  # (..., T, K')


@keras.saving.register_keras_serializable("keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (section 3.2.2).

    Each head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). Variants that encode positions inside
    attention override `encode_positions` or `score_bias`.

    Args:
        d_model: D, width of input and output.
        heads: H.
        key_width: K of queries and keys, for each head; d_k in the paper.
        value_width: K' of values, for each head; d_v in the paper.
        dropout: Dropout rate of the attention weights; the paper has no dropout here.
        attention: "plain", or "blockwise" for the same result in less memory but more time;
            see `kernels.blockwise_attention`.
        use_bias: Whether the projections have biases; the paper's have none.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        key_width: int,
        value_width: int,
        dropout: float = 0.0,
        attention: str = "plain",
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.heads = heads
        self.key_width = key_width
        self.value_width = value_width
        self.dropout_rate = dropout
        self.attention = attention
        self.use_bias = use_bias
        self.dropout = Dropout(dropout, dtype="float32")

    def build(self, *shapes: Any) -> None:
        d_model = self.d_model
        key_width, value_width = self.heads * self.key_width, self.heads * self.value_width
        # The W_i of all heads side by side: one product instead of H.
        self.query_kernel = self._kernel("query_kernel", (d_model, key_width))
        self.key_kernel = self._kernel("key_kernel", (d_model, key_width))
        self.value_kernel = self._kernel("value_kernel", (d_model, value_width))
        self.output_kernel = self._kernel("output_kernel", (value_width, d_model))  # W^O
        self.query_bias = self._bias("query_bias", key_width)
        self.key_bias = self._bias("key_bias", key_width)
        self.value_bias = self._bias("value_bias", value_width)
        self.output_bias = self._bias("output_bias", d_model)
        self.built = True

    def _kernel(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(name=name, shape=shape, initializer="glorot_uniform")

    def _bias(self, name: str, width: int) -> Any:
        """Add a bias, or return None without ``use_bias``."""
        if not self.use_bias:
            return None
        return self.add_weight(name=name, shape=(width,), initializer="zeros")

    def call(
        self,
        query: tf.Tensor,
        memory: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        causal: bool = False,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Attend from each position of ``query`` to the positions of ``memory``.

        Args:
            query: (B, T, D).
            memory: (B, S, D); the same tensor as ``query`` in self-attention.
            attention_mask: Boolean, broadcasts to (B, H, T, S); True where a query may
                attend to a key. (Keras fills an argument named ``mask`` by itself.)
            causal: Whether to mask the positions after each query (section 3.2.3).
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too, which only plain
                attention computes.

        Returns:
            (B, T, D), and with ``return_weights`` also (B, H, T, S) float32.
        """
        queries = project(query, self.query_kernel, self.query_bias)  # (B, T, H * K)
        queries = self.encode_positions(split_heads(queries, self.heads, self.key_width))
        keys, values = self.keys_values(memory)
        if self.attention == "blockwise" and not return_weights:
            dropout = self.dropout.blockwise() if training and self.dropout_rate else None
            context = blockwise_attention(
                *(queries, keys, values, attention_mask, causal, self.score_bias, dropout),
                scale=self.score_scale,
            )
            return self._project_heads(context)  # (B, T, D)
        length, memory_length = tf.shape(queries)[2], tf.shape(keys)[2]
        if causal:
            look_ahead = look_ahead_mask(length, memory_length)
            attention_mask = look_ahead if attention_mask is None else attention_mask & look_ahead
        bias = self.score_bias(tf.range(length)[:, None] - tf.range(memory_length)[None, :])

        def drop(weights: tf.Tensor) -> tf.Tensor:
            return self.dropout(weights, training=training)

        context, weights = scaled_dot_product_attention(
            queries, keys, values, attention_mask, bias, drop, self.score_scale
        )
        output = self._project_heads(context)  # (B, T, D)
        return (output, weights) if return_weights else output

    def keys_values(self, memory: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Project (B, S, D) to keys (B, H, S, K) and values (B, H, S, K')."""
        keys = project(memory, self.key_kernel, self.key_bias)  # (B, S, H * K)
        values = project(memory, self.value_kernel, self.value_bias)  # (B, S, H * K')
        keys = self.encode_positions(split_heads(keys, self.heads, self.key_width))
        return keys, split_heads(values, self.heads, self.value_width)

    def _project_heads(self, context: tf.Tensor) -> tf.Tensor:
        """Concatenate the heads (B, H, T, K') and project them: (B, T, D)."""
        return project(merge_heads(context), self.output_kernel, self.output_bias)

    @property
    def score_scale(self) -> float:
        """Factor of the scores, 1 / sqrt(d_k): their variance would grow with d_k."""
        return self.key_width**-0.5

    def encode_positions(self, x: tf.Tensor, first: tf.Tensor | int = 0) -> tf.Tensor:
        """Encode positions in queries or keys; without a variant, return them unchanged.

        Args:
            x: (B, H, T, K).
            first: Position of the first of the T.

        Returns:
            (B, H, T, K).
        """
        return x

    def score_bias(self, distance: tf.Tensor) -> tf.Tensor | None:
        """Return the bias to add to the scores; without a variant, None.

        Args:
            distance: (..., T, S) int32, query position minus key position.

        Returns:
            (..., H, T, S) float32, or None.
        """
        return None

    def compute_output_spec(self, query: Any, memory: Any, *_: Any, **options: Any) -> Any:
        output = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (query.shape[0], self.heads, query.shape[1], memory.shape[1])
        return output, keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "d_model": self.d_model,
            "heads": self.heads,
            "key_width": self.key_width,
            "value_width": self.value_width,
            "dropout": self.dropout_rate,
            "attention": self.attention,
            "use_bias": self.use_bias,
        }


def split_heads(x: tf.Tensor, heads: int, width: int) -> tf.Tensor:
    """Split features (B, T, H * K) by head: (B, H, T, K)."""
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0], shape[1], heads, width])  # (B, T, H, K)
    return tf.transpose(x, [0, 2, 1, 3])  # (B, H, T, K)


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Concatenate heads (B, H, T, K): (B, T, H * K)."""
    heads, _, width = x.shape[1:]
    shape = tf.shape(x)
    x = tf.transpose(x, [0, 2, 1, 3])  # (B, T, H, K)
    return tf.reshape(x, [shape[0], shape[2], heads * width])  # (B, T, H * K)
