"""Layers without the feed-forward sub-layer of section 3.3 (Pires et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.sublayer import SublayerConnection


@keras.saving.register_keras_serializable("keras_transformer")
class NoFeedForward(FeedForward):
    """A feed-forward network without weights, which `NoFeedForwardConnection` never calls.

    The arguments are as for `FeedForward`.
    """

    def build(self, shape: Any) -> None:
        self.built = True

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return x (B, T, D)."""
        return x


@keras.saving.register_keras_serializable("keras_transformer")
class NoFeedForwardConnection(SublayerConnection):
    """The input unchanged: no sub-layer, residual connection or normalization.

    Args:
        dropout: Not used.
        epsilon: Not used.
        kwargs: Arguments of `keras.layers.Layer`.
    """

    def make_normalization(self) -> keras.layers.Layer:
        return keras.layers.Identity(dtype=self.dtype_policy)

    def call(
        self,
        x: tf.Tensor,
        sublayer: Callable[[tf.Tensor], tf.Tensor],
        training: bool = False,
        real_tokens: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return x (B, T, D)."""
        return x
