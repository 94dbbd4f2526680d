"""Token accuracy and perplexity, which ignore padding, for plain ``compile`` and ``fit``."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.special_tokens import PAD
from keras_transformer.training.loss import token_losses


class TokenMean(keras.metrics.Metric):
    """Mean of a value over real tokens, the base class of the metrics.

    Totals and counts are summed over replicas, so that the result does not depend on their number.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.total = self.add_variable((), initializer="zeros", name="total")
        self.count = self.add_variable((), initializer="zeros", name="count")

    def values(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Return the value of each token, (B, T) float32."""
        raise NotImplementedError

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> None:
        """Add a batch.

        Args:
            y_true: (B, T) ids, padded with 0.
            y_pred: (B, T, V) logits.
            sample_weight: Weights that broadcast to (B, T), or None for 1.
        """
        labels = tf.cast(tf.convert_to_tensor(y_true), tf.int32)
        logits = tf.cast(tf.convert_to_tensor(y_pred), tf.float32)
        weights = tf.cast(labels != PAD, tf.float32)
        if sample_weight is not None:
            weights *= tf.cast(sample_weight, tf.float32)
        self.total.assign_add(tf.reduce_sum(weights * self.values(labels, logits)))
        self.count.assign_add(tf.reduce_sum(weights))

    def result(self) -> Any:
        """Return the mean over all real tokens so far; 0 without any."""
        return tf.math.divide_no_nan(
            tf.convert_to_tensor(self.total), tf.convert_to_tensor(self.count)
        )


@keras.saving.register_keras_serializable("keras_transformer")
class TokenAccuracy(TokenMean):
    """Share of real tokens whose most probable prediction equals the label."""

    def __init__(self, name: str = "token_accuracy", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)

    def values(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == labels, tf.float32)


@keras.saving.register_keras_serializable("keras_transformer")
class Perplexity(TokenMean):
    """exp of the mean cross-entropy of real tokens, without label smoothing."""

    def __init__(self, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)

    def values(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return token_losses(logits, labels)

    def result(self) -> Any:
        return tf.exp(super().result())
