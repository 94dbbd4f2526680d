"""The training step: one division by the tokens of all replicas."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.training.loss import TokenLoss, projected_loss


class TranslationModel(keras.Model):
    """The functional model with a step that is right for any number of replicas.

    Keras scales losses and clips gradients per replica, which is wrong where replicas hold
    unequal numbers of tokens. Here every replica divides the gradient of its summed loss
    by the token count of all replicas, and the optimizer adds the replicas up.
    """

    def configure(self, optimizer: keras.optimizers.Optimizer, smoothing: float, jit: bool) -> None:
        """Prepare for `fit`; call it in the strategy's scope.

        Args:
            optimizer: An optimizer without clipping, accumulation or averaging of its own.
            smoothing: Label smoothing.
            jit: Whether XLA compiles the step.
        """
        # The part below the projection shares all its weights with this model: tracked
        # as an attribute, they would be saved twice.
        object.__setattr__(self, "_features", transformer.features(self))
        self._smoothing = smoothing
        self._fixed_shapes = jit
        self._trackers = {
            "loss": keras.metrics.Mean(name="loss"),
            "log_loss": keras.metrics.Mean(name="log_loss"),
            "source_tokens": keras.metrics.Sum(name="source_tokens"),
            "target_tokens": keras.metrics.Sum(name="target_tokens"),
        }
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=jit)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` and `evaluate` report and reset."""
        return list(self._trackers.values())

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Nothing: the model is functional and the optimizer built.

        Keras would draw one batch more than it trains on, and average the batches of the
        replicas, which fails where they differ in size.
        """

    def token_loss(self, inputs: Any, labels: tf.Tensor, training: bool) -> TokenLoss:
        """Loss over the real tokens of a batch.

        Args:
            inputs: ``{"source": (B, S), "target": (B, T)}`` ids.
            labels: (B, T) ids.
            training: Whether dropout is on.
        """
        features = self._features(inputs, training=training)
        matrix = transformer.projection(self).matrix
        return projected_loss(
            features, matrix, labels, self._smoothing, fixed_shapes=self._fixed_shapes
        )

    def train_step(self, data: Any) -> dict[str, Any]:
        """One update from ``(inputs, labels)``, in replica context."""
        inputs, labels = data
        with tf.GradientTape() as tape:
            result = self.token_loss(inputs, labels, training=True)
        variables = self.trainable_variables
        gradients = tape.gradient(result.loss, [variable.value for variable in variables])
        replica = tf.distribute.get_replica_context()
        tokens = replica.all_reduce(tf.distribute.ReduceOp.SUM, result.tokens)
        scale = 1.0 / tf.maximum(tokens, 1.0)
        # Dense before they are added up: replicas touch different rows of the embedding.
        dense = [tf.convert_to_tensor(gradient) * scale for gradient in gradients]
        self.optimizer.apply(dense, variables)
        return self._track(inputs, result)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Loss of ``(inputs, labels)`` without dropout, in replica context."""
        inputs, labels = data
        return self._track(inputs, self.token_loss(inputs, labels, training=False))

    def _track(self, inputs: Any, result: TokenLoss) -> dict[str, Any]:
        for name in ("loss", "log_loss"):
            mean = tf.math.divide_no_nan(getattr(result, name), result.tokens)
            self._trackers[name].update_state(mean, sample_weight=result.tokens)
        source_tokens = tf.math.count_nonzero(inputs["source"], dtype=tf.float32)
        self._trackers["source_tokens"].update_state(source_tokens)
        self._trackers["target_tokens"].update_state(result.tokens)
        return {name: tracker.result() for name, tracker in self._trackers.items()}
