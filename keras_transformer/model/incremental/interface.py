"""Interface of a model for inference: encode, decode step by step, decode given targets.

`inference` and `serving` use a model only through this interface. `factory` chooses the class by
architecture.

Shapes: see `model`; W rows of each sentence, R rows (B * W).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.masks import padding_mask


class OutputProjection(NamedTuple):
    """Output projection in the form that a step uses."""

    kernel: tf.Tensor
    """(D, V), the transposed matrix in its compute dtype."""
    bias: tf.Tensor | None
    """(V,) float32, if the logits have a bias."""

    def logits(self, features: tf.Tensor) -> tf.Tensor:
        """Return the logits (R, V) float32 of features (R, D)."""
        logits = tf.cast(tf.matmul(features, self.kernel), tf.float32)
        return logits if self.bias is None else logits + self.bias


class StepFunction(Protocol):
    """One position of R rows; row b * W + w is hypothesis w of sentence b."""

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor | int, state: Any
    ) -> tuple[tf.Tensor, Any]:
        """Decode one position.

        Args:
            tokens: (R,) int64, the tokens at this position.
            position: () int32, the same for all rows.
            state: The state after the previous position, with room for one more. It may be
                overwritten.

        Returns:
            The logits (R, V) float32 of the tokens after this position, and the new state.
        """

    def reorder(self, state: Any, parents: tf.Tensor) -> Any:
        """Let hypothesis w of sentence b continue hypothesis parents[b, w], (B, W) int64."""

    def select_and_reserve(
        self, state: Any, sentences: tf.Tensor | list[int], more: tf.Tensor | int
    ) -> Any:
        """Select sentences (b,) int32 and make room for ``more`` further steps."""


class DecodingModel(ABC):
    """A model's functions for inference.

    Args:
        model: A model from `transformer.build`.
    """

    def __init__(self, model: keras.Model) -> None:
        self._encoder = model.get_layer("encoder")
        self._decoder = model.get_layer("decoder")
        self._source_positions = model.get_layer("source_positions")
        self._source_embedding = transformer.source_embedding(model)
        self._projection = transformer.projection(model)
        self.target_positions = model.get_layer("target_positions")
        self.target_embedding = transformer.target_embedding(model)

    @abstractmethod
    def start(self, source: tf.Tensor, beam: int = 1) -> tuple[StepFunction, Any]:
        """Encode the source.

        Args:
            source: (B, S) int32 source ids, each sentence with its end token, padded.
            beam: W, rows for each sentence.

        Returns:
            The step function and the state before the first position. The state has no room
            for a step yet: see `StepFunction.select_and_reserve`.
        """

    def encode(self, source: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Return the encoder's output for ids (B, S) and their `padding_mask`."""
        embedded = self._source_positions(self._source_embedding(source))
        return self._encoder(embedded, mask)

    def forward(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Decode all positions of given targets at once, with the cross-attention weights.

        Args:
            source: (B, S) int32 source ids, each sentence with its end token, padded.
            target: (B, T) int32 target ids, start token first, padded.

        Returns:
            The logits (B, T, V), and for each decoder layer with cross-attention its weights
            (B, H, T, S) float32. Position t predicts the token after position t.
        """
        mask = padding_mask(source)
        embedded = self.target_positions(self.target_embedding(target))
        features, weights = self._decoder(
            embedded,
            self.encode(source, mask),
            padding_mask(target),
            mask,
            return_weights=True,
        )
        return self._projection(features, reverse=True), weights

    def output_projection(self) -> OutputProjection:
        """Return the output projection, prepared for the steps of a search."""
        layer = self._projection
        # One transposition takes less time than it saves in two products with few rows.
        kernel = tf.transpose(tf.convert_to_tensor(layer.matrix))
        kernel = tf.cast(kernel, layer.compute_dtype)
        if layer.output_bias is None:
            return OutputProjection(kernel, None)
        bias = tf.cast(tf.convert_to_tensor(layer.output_bias), tf.float32)
        return OutputProjection(kernel, bias)
