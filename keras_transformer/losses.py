"""Label-smoothed cross-entropy for plain ``compile`` and ``fit``.

Keras sums gradients over replicas, but scales the loss by 1 / replicas only if it is not yet a
scalar. So this loss returns a value per token. `weight_tokens` computes weights that divide by
the number of real tokens of the whole batch, before the batch is distributed.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.special_tokens import PAD
from keras_transformer.training.loss import token_losses


def weight_tokens(inputs: Any, labels: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
    """Add sample weights that make Keras' mean over positions a mean over real tokens.

    Map it over batches: ``dataset.padded_batch(...).map(weight_tokens)``.

    Args:
        inputs: The model's inputs.
        labels: (B, T) ids, padded with 0.

    Returns:
        Inputs, labels and weights (B, T) float32: 0 at padding, B·T / real tokens elsewhere.
    """
    real = tf.cast(labels != PAD, tf.float32)
    tokens = tf.maximum(tf.reduce_sum(real), 1.0)
    return inputs, labels, real * tf.cast(tf.size(labels), tf.float32) / tokens


@keras.saving.register_keras_serializable("keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against (1 - e) · label + e / V, which ignores padding.

    With the weights of `weight_tokens` it is the mean over the real tokens of the batch, also
    under a distribution strategy if all replicas have the same number of rows. Without them it
    is the mean over all positions, and padding counts as 0.

    Args:
        smoothing: e, probability mass spread evenly over the vocabulary.
        reduction: As for Keras' losses; "sum" gives the sum over real tokens.

    Example:
        >>> loss = LabelSmoothedCrossEntropy(0.0)
        >>> float(loss([[1]], [[[0.0, 0.0]]]))  # log 2
        0.6931471824645996
    """

    def __init__(
        self,
        smoothing: float = 0.1,
        reduction: str = "sum_over_batch_size",
        name: str = "label_smoothed_cross_entropy",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        if not 0.0 <= smoothing < 1.0:
            raise ValueError(f"smoothing: expected 0 <= smoothing < 1, got {smoothing!r}")
        self.smoothing = smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Return the loss of each token, (B, T), for labels (B, T) and logits (B, T, V)."""
        return token_losses(y_pred, tf.cast(y_true, tf.int32), self.smoothing)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"smoothing": self.smoothing}
