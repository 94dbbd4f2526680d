"""Scaled dot-product attention and multi-head attention (sections 3.2.1 and 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model.kernels.blockwise_attention import blockwise_attention
from keras_transformer.model.kernels.dropout import Dropout
from keras_transformer.model.kernels.linear import project
from keras_transformer.model.masks import MASK_VALUE, look_ahead_mask
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
        weights = tf.nn.softmax(tf.where(mask, scores, MASK_VALUE))
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
        attention: "plain" keeps the weights of all pairs of positions for the backward pass,
            "blockwise" computes them anew; see `blockwise_attention`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        key_width: int,
        value_width: int,
        dropout: float = 0.0,
        positions: str = "none",
        attention: str = "plain",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.heads = heads
        self.key_width = key_width
        self.value_width = value_width
        self.dropout_rate = dropout
        self.positions = positions
        self.attention = attention
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
        causal: bool = False,
        training: bool = False,
        return_weights: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Attend from every position of ``query`` to the positions of ``memory``.

        Args:
            query: (B, T, D).
            memory: (B, S, D); the same tensor as ``query`` in self-attention.
            attention_mask: Boolean, broadcasts to (B, H, T, S); True where attending is
                allowed. (A name that Keras gives no meaning of its own.)
            causal: Whether a position sees no later one (section 3.2.3).
            training: Whether dropout is on.
            return_weights: Whether to return the attention weights too; they are computed
                plainly then.

        Returns:
            (B, T, D), and with ``return_weights`` also (B, H, T, S) float32.
        """
        queries = _split_heads(project(query, self.query_kernel), self.heads, self.key_width)
        if self.positions == "rotary":
            queries = rotate(queries)
        keys, values = self.keys_values(memory)
        if self.attention == "blockwise" and not return_weights:
            context = self._in_blocks(queries, keys, values, attention_mask, causal, training)
            return project(_merge_heads(context), self.output_kernel)
        length, memory_length = tf.shape(queries)[2], tf.shape(keys)[2]
        if causal:
            past = look_ahead_mask(length, memory_length)
            attention_mask = past if attention_mask is None else attention_mask & past
        bias = None
        if self.positions == "alibi":
            bias = alibi_bias(self.heads, length, memory_length)
        drop = (lambda w: self.dropout(w, training=training)) if self.dropout_rate else None
        context, weights = scaled_dot_product_attention(
            queries, keys, values, attention_mask, bias, drop
        )
        output = project(_merge_heads(context), self.output_kernel)
        return (output, weights) if return_weights else output

    def _in_blocks(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        mask: tf.Tensor | None,
        causal: bool,
        training: bool,
    ) -> tf.Tensor:
        """Queries, keys and values by head to (B, H, T, K')."""
        bias = None
        if self.positions == "alibi":

            def bias(first: tf.Tensor, queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
                return alibi_bias(self.heads, queries, keys, first)

        drop = self.dropout.in_blocks() if training and self.dropout_rate else None
        return blockwise_attention(queries, keys, values, mask, causal, bias, drop)

    def keys_values(self, x: tf.Tensor) -> KeysValues:
        """(B, S, D) to keys (B, H, S, K) and values (B, H, S, K')."""
        keys = _split_heads(project(x, self.key_kernel), self.heads, self.key_width)
        values = _split_heads(project(x, self.value_kernel), self.heads, self.value_width)
        return KeysValues(rotate(keys) if self.positions == "rotary" else keys, values)

    # The rest is for search: W rows of each sentence, all at one position. Queries are scaled
    # beforehand, masks are added to the scores, and what is the same in every step is made once.

    def joint_kernel(self) -> tf.Tensor:
        """Query, key and value kernels side by side: one product instead of three.

        Returns:
            (D, H * (2 K + K')) in the type that the layer computes in; queries come out scaled.
        """
        query = tf.convert_to_tensor(self.query_kernel) * self.key_width**-0.5
        kernels = [query, *map(tf.convert_to_tensor, (self.key_kernel, self.value_kernel))]
        return tf.cast(tf.concat(kernels, axis=1), self.compute_dtype)

    def project_position(
        self, x: tf.Tensor, joint_kernel: tf.Tensor, position: tf.Tensor | int, beam: int
    ) -> tuple[tf.Tensor, KeysValues]:
        """The queries, keys and values of one position.

        Args:
            x: (R, D), the W rows of a sentence next to each other.
            joint_kernel: From ``joint_kernel``.
            position: The position, the same for all rows.
            beam: W.

        Returns:
            Scaled queries (B, H, W, K), keys (B * H, W * K) and values (B * H, W * K').
        """
        widths = self.key_width, self.key_width, self.value_width
        parts = tf.split(
            tf.matmul(x, joint_kernel), [self.heads * width for width in widths], axis=1
        )
        if self.positions == "rotary":
            for part in (0, 1):
                each = tf.reshape(parts[part], [-1, self.heads, 1, self.key_width])
                parts[part] = rotate(each, position)
        queries, keys, values = (
            self._by_head(part, beam, width) for part, width in zip(parts, widths, strict=True)
        )
        flat = [
            tf.reshape(part, [-1, beam * width])
            for part, width in zip((keys, values), widths[1:], strict=True)
        ]
        return queries, KeysValues(*flat)

    def scaled_queries(self, x: tf.Tensor, beam: int) -> tf.Tensor:
        """(R, D) to scaled queries (B, H, W, K), of a layer without positions of its own."""
        kernel = tf.cast(tf.convert_to_tensor(self.query_kernel), x.dtype)
        queries = tf.matmul(x, kernel) * tf.cast(self.key_width**-0.5, x.dtype)
        return self._by_head(queries, beam, self.key_width)

    def attend_from(
        self,
        queries: tf.Tensor,
        keys_values: KeysValues,
        bias: tf.Tensor,
        keys_transposed: bool = False,
    ) -> tf.Tensor:
        """Attend with scaled queries, merge the heads and project.

        Args:
            queries: (B, H, W, K), scaled.
            keys_values: Keys (B, H, S, K) and values (B, H, S, K').
            bias: (B, H, W, S) float32, added to the scores.
            turned: Whether the keys are (B, H, K, S), which halves the time of their product.

        Returns:
            (R, D).
        """
        scores = tf.matmul(
            queries, keys_values.keys, transpose_b=not keys_transposed
        )  # (B, H, W, S)
        weights = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
        context = tf.matmul(tf.cast(weights, queries.dtype), keys_values.values)
        if context.shape[2] != 1:
            context = _swapped(context)  # (B, W, H, K')
        kernel = tf.cast(tf.convert_to_tensor(self.output_kernel), context.dtype)
        return tf.matmul(tf.reshape(context, [-1, kernel.shape[0]]), kernel)

    def _by_head(self, x: tf.Tensor, beam: int, width: int) -> tf.Tensor:
        """R rows of H * K features to (B, H, W, K)."""
        if beam == 1:  # nothing to transpose
            return tf.reshape(x, [-1, self.heads, 1, width])
        return _swapped(tf.reshape(x, [-1, beam, self.heads, width]))

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
            "attention": self.attention,
        }


def _swapped(x: tf.Tensor) -> tf.Tensor:
    """``x`` with its second and third of four dimensions swapped, for the few rows of a step.

    As integers, which are copied at once: of floats oneDNN first makes a plan, which takes
    longer than the copy.
    """
    bits = tf.bitcast(x, tf.int32 if x.dtype == tf.float32 else tf.int16)
    return tf.bitcast(tf.transpose(bits, [0, 2, 1, 3]), x.dtype)


def _split_heads(x: tf.Tensor, heads: int, width: int) -> tf.Tensor:
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0], shape[1], heads, width])  # (B, T, H, K)
    return tf.transpose(x, [0, 2, 1, 3])  # (B, H, T, K)


def _merge_heads(x: tf.Tensor) -> tf.Tensor:
    heads, _, width = x.shape[1:]
    shape = tf.shape(x)
    x = tf.transpose(x, [0, 2, 1, 3])  # (B, T, H, K)
    return tf.reshape(x, [shape[0], shape[2], heads * width])  # (B, T, H * K)
