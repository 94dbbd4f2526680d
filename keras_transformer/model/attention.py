"""Scaled dot-product attention and multi-head attention (sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model.dropout import Dropout
from keras_transformer.model.linear import project
from keras_transformer.model.positions import alibi_bias, rotate

DropWeights = Callable[[tf.Tensor], tf.Tensor]


class KeysValues(NamedTuple):
    """Projected keys and values of one attention layer, split by head."""

    keys: tf.Tensor  # (B, H, S, K)
    values: tf.Tensor  # (B, H, S, K'), where K' may differ from K


def scaled_dot_product_attention(
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    mask: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
    dropout: DropWeights | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """softmax(Q Kᵀ / sqrt(d_k)) V, equation 1.

    Args:
        queries: (..., T, K).
        keys: (..., S, K).
        values: (..., S, K'), where K' may differ from K.
        mask: Boolean, broadcasts to (..., T, S); True where a query may attend to a key.
            A query that may attend to nothing gets weights and output of zero.
        bias: Added to the scores before the softmax; broadcasts to (..., T, S).
        dropout: Applied to the weights.

    Returns:
        The output (..., T, K') and the weights (..., T, S) before dropout, float32.
    """
    # Scaling the queries costs T*K products, scaling the scores T*S.
    scale = tf.cast(keys.shape[-1], queries.dtype) ** -0.5
    scores = tf.matmul(queries * scale, keys, transpose_b=True)  # (..., T, S)
    # float16 and bfloat16 lose the tail of a softmax, and float16 has no -1e9.
    scores = tf.cast(scores, tf.float32)
    if bias is not None:
        scores += tf.cast(bias, tf.float32)
    if mask is None:
        weights = tf.nn.softmax(scores)
    else:
        # Half of the lowest float: adding a score to it cannot overflow to -inf.
        weights = tf.nn.softmax(tf.where(mask, scores, tf.float32.min / 2))
        # A row without any key would otherwise be spread evenly over padding.
        weights *= tf.cast(tf.reduce_any(mask, axis=-1, keepdims=True), tf.float32)
    dropped = weights if dropout is None else dropout(weights)
    return tf.matmul(tf.cast(dropped, values.dtype), values), weights


@keras.saving.register_keras_serializable("keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """h heads in parallel: project, split, attend, merge, project (section 3.2.2).

    The projections have no bias, as in the paper's equation.

    Args:
        d_model: D, width of input and output.
        heads: H.
        key_width: K of queries and keys, for one head.
        value_width: K of values, for one head.
        dropout: Share of attention weights dropped in training.
        positions: "rotary" or "alibi" where this layer itself sees positions (in
            self-attention), "none" otherwise.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        key_width: int,
        value_width: int,
        dropout: float = 0.0,
        positions: str = "none",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.heads = heads
        self.key_width = key_width
        self.value_width = value_width
        self.dropout_rate = dropout
        self.positions = positions
        self.dropout = Dropout(dropout, dtype="float32")

    def build(self, *shapes: Any) -> None:
        """Make the four projection matrices; their shapes do not depend on the input."""
        key, value = self.heads * self.key_width, self.heads * self.value_width
        self.query_kernel = self._kernel("query_kernel", (self.d_model, key))
        self.key_kernel = self._kernel("key_kernel", (self.d_model, key))
        self.value_kernel = self._kernel("value_kernel", (self.d_model, value))
        self.output_kernel = self._kernel("output_kernel", (value, self.d_model))
        self.built = True

    def _kernel(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(name=name, shape=shape, initializer="glorot_uniform")

    def call(
        self,
        query: tf.Tensor,
        memory: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Attend from every position of ``query`` to the positions of ``memory``.

        Args:
            query: (B, T, D).
            memory: (B, S, D); the same tensor as ``query`` in self-attention.
            attention_mask: Boolean, broadcasts to (B, H, T, S); True where attending is
                allowed. (A name that Keras gives no meaning of its own.)
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too.

        Returns:
            (B, T, D), and with ``return_weights`` also (B, H, T, S) float32.
        """
        queries = self.queries(query)
        keys_values = self.keys_values(memory)
        output, weights = self.attend(queries, keys_values, attention_mask, training=training)
        return (output, weights) if return_weights else output

    def queries(self, x: tf.Tensor, position: tf.Tensor | int = 0) -> tf.Tensor:
        """(B, T, D) to queries (B, H, T, K); ``position`` is that of the first of the T."""
        queries = _split_heads(project(x, self.query_kernel), self.heads, self.key_width)
        return rotate(queries, position) if self.positions == "rotary" else queries

    def keys_values(self, x: tf.Tensor, position: tf.Tensor | int = 0) -> KeysValues:
        """(B, S, D) to keys and values (B, H, S, K); ``position`` is that of the first."""
        keys = _split_heads(project(x, self.key_kernel), self.heads, self.key_width)
        values = _split_heads(project(x, self.value_kernel), self.heads, self.value_width)
        if self.positions == "rotary":
            keys = rotate(keys, position)
        return KeysValues(keys, values)

    def attend(
        self,
        queries: tf.Tensor,
        keys_values: KeysValues,
        mask: tf.Tensor | None,
        position: tf.Tensor | int = 0,
        training: bool = False,
        bias: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attend with projected queries and keys, merge the heads and project.

        Args:
            queries: (B, H, T, K).
            keys_values: Keys and values (B, H, S, K).
            mask: Boolean, broadcasts to (B, H, T, S).
            position: Position of the first query; the first key is at 0.
            training: Whether dropout is on.
            bias: Added to the scores, broadcasts to (B, H, T, S); not with "alibi", which has
                its own.

        Returns:
            (B, T, D) and the weights (B, H, T, S) float32.
        """
        if self.positions == "alibi":
            sizes = tf.shape(queries)[2], tf.shape(keys_values.keys)[2]
            bias = alibi_bias(self.heads, *sizes, position)
        context, weights = scaled_dot_product_attention(
            queries,
            keys_values.keys,
            keys_values.values,
            mask,
            bias,
            (lambda w: self.dropout(w, training=training)) if self.dropout_rate else None,
        )
        return project(_merge_heads(context), self.output_kernel), weights

    def compute_output_spec(
        self,
        query: Any,
        memory: Any,
        attention_mask: Any = None,
        training: Any = None,
        **options: Any,
    ) -> Any:
        """(B, T, D), and the weights where asked for."""
        output = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not options.get("return_weights"):
            return output
        shape = (query.shape[0], self.heads, query.shape[1], memory.shape[1])
        return output, keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {
            "d_model": self.d_model,
            "heads": self.heads,
            "key_width": self.key_width,
            "value_width": self.value_width,
            "dropout": self.dropout_rate,
            "positions": self.positions,
        }


def _split_heads(x: tf.Tensor, heads: int, width: int) -> tf.Tensor:
    # A length that is known, as in a search step, spares the operations that find it out.
    length = x.shape[1]
    if length == 1:  # nothing to transpose
        return tf.reshape(x, [-1, heads, 1, width])  # (B, H, 1, K)
    shape = tf.shape(x)
    sizes = [shape[0], shape[1]] if length is None else [-1, length]
    x = tf.reshape(x, [*sizes, heads, width])  # (B, T, H, K)
    return tf.transpose(x, [0, 2, 1, 3])  # (B, H, T, K)


def _merge_heads(x: tf.Tensor) -> tf.Tensor:
    heads, length, width = x.shape[1:]
    if length == 1:
        return tf.reshape(x, [-1, 1, heads * width])
    shape = tf.shape(x)
    x = tf.transpose(x, [0, 2, 1, 3])  # (B, T, H, K)
    sizes = [shape[0], shape[2]] if length is None else [-1, length]
    return tf.reshape(x, [*sizes, heads * width])  # (B, T, H * K)
