"""The training step: sums over real tokens, divided once, whatever the split of the batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.kernels.dropout import dropout_seed
from keras_transformer.training.fused_loss import projected_loss
from keras_transformer.training.loss import TokenLoss


class StepOptions(NamedTuple):
    """What a step does beside the model and its optimizer."""

    smoothing: float = 0.0
    """Label smoothing."""
    seed: int = 1
    """Of dropout."""
    micro_batches: int = 1
    """Parts that a device computes one after the other, adding up their gradients."""
    clip_norm: float = 0.0
    """Greatest norm of all gradients together; 0 leaves them as they are."""
    jit: bool = False
    """Compile with XLA."""


class _Sums(NamedTuple):
    """Over the tokens of one device, or of all."""

    loss: tf.Tensor
    log_loss: tf.Tensor
    source_tokens: tf.Tensor
    target_tokens: tf.Tensor


class TranslationModel(keras.Model):
    """The network with a training step that counts tokens.

    The loss and the tokens are summed over the pieces that a device takes one after the
    other, then over the devices of all workers; the gradient of the sum is divided by the
    tokens, then clipped. So the update is that of the mean over all real tokens of the batch,
    however it is spread. (Keras divides by rows and devices, clips on each device, and counts
    accumulated pieces as steps of the learning rate.)

    Made by `transformer.build(config, dtype, TranslationModel)`, then `configure`.
    """

    def configure(self, optimizer: keras.optimizers.Optimizer, options: StepOptions) -> None:
        """Set what `fit` needs; call it in the scope of the distribution strategy.

        Args:
            optimizer: Takes gradients as they are, such as `ReducedAdam`; its learning rate
                sees one step for each batch.
            options: What a step does.

        Raises:
            ValueError: XLA with several pieces.
        """
        if options.jit and options.micro_batches > 1:
            raise ValueError(f"pieces: expected 1 with jit, got {options.micro_batches}")
        self._features = transformer.features(self)
        self._options = options
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=options.jit)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None: each step returns its own sums, already added up over devices and workers."""
        return []

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Nothing: the model is functional and the optimizer built.

        Keras would draw one batch more than it trains on, and average the batches of the
        replicas, which fails where they differ in size.
        """

    def make_train_function(self, force: bool = False) -> Any:
        """The function that `fit` calls: a step on every device.

        Keras' own takes the mean of what the devices return, in a way that several workers
        cannot; here they all return the same.
        """
        made = getattr(self, "train_function", None)
        if made is not None and not force:
            return made
        strategy = self.distribute_strategy

        @tf.function(autograph=False, reduce_retracing=True, jit_compile=self._options.jit)
        def on_each_device(data: Any) -> Any:
            return strategy.run(self.train_step, args=(data,))

        @tf.function(autograph=False, reduce_retracing=True)
        def step(iterator: Any) -> dict[str, tf.Tensor]:
            results = on_each_device(iterator.get_next())
            return {
                name: strategy.experimental_local_results(value)[0]
                for name, value in results.items()
            }

        self.train_function = step
        return step

    def token_loss(self, inputs: Any, labels: tf.Tensor, training: bool) -> TokenLoss:
        """Loss over the real tokens of a batch.

        Args:
            inputs: ``{"source": (B, S), "target": (B, T)}`` ids.
            labels: (B, T) ids.
            training: Whether dropout is on.
        """
        features = self._features(inputs, training=training)
        matrix = transformer.projection(self).matrix
        options = self._options
        return projected_loss(features, matrix, labels, options.smoothing, fixed_shapes=options.jit)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One update from ``(inputs, labels)``, in replica context.

        Args:
            data: This device's share of the batch; it may be empty.

        Returns:
            Of the whole batch, the same on every device: ``loss`` and ``log_loss``, means
            over its tokens, ``source_tokens``, ``target_tokens``, and ``gradient_norm`` before
            clipping; float32 scalars.
        """
        sums, gradients = self._summed_gradients(*data)
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            # Dense before they are added up: replicas touch different rows of the embedding.
            *gradients, together = replica.all_reduce(
                tf.distribute.ReduceOp.SUM, [*gradients, tf.stack(sums)]
            )
            sums = _Sums(*tf.unstack(together, len(_Sums._fields)))
        tokens = tf.maximum(sums.target_tokens, 1.0)
        norm = tf.linalg.global_norm(gradients) / tokens
        scale = 1.0 / tokens
        if self._options.clip_norm:
            scale *= tf.minimum(1.0, self._options.clip_norm / tf.maximum(norm, 1e-30))
        self.optimizer.apply([gradient * scale for gradient in gradients], self.trainable_variables)
        return {
            "loss": sums.loss / tokens,
            "log_loss": sums.log_loss / tokens,
            "source_tokens": sums.source_tokens,
            "target_tokens": sums.target_tokens,
            "gradient_norm": norm,
        }

    def _summed_gradients(self, inputs: Any, labels: tf.Tensor) -> tuple[_Sums, list[tf.Tensor]]:
        """Sums of this device's share, and the gradients of its summed loss, dense."""
        replica = tf.distribute.get_replica_context()
        # Dropout depends on nothing but seed, step, device and piece: a run that goes on
        # draws what it would have drawn, and no state has to be kept.
        seed = tf.constant([self._options.seed, 0])
        for number in (self.optimizer.iterations.value, replica.replica_id_in_sync_group):
            seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(number, tf.int32))
        micro_batches = self._options.micro_batches
        if micro_batches == 1:
            return self._piece(inputs, labels, seed)

        rows = tf.shape(labels)[0]
        batch = inputs | {"labels": labels}

        def add(i: tf.Tensor, sums: _Sums, gradients: list[tf.Tensor]) -> Any:
            some = {
                name: _trimmed(ids[i * rows // micro_batches : (i + 1) * rows // micro_batches])
                for name, ids in batch.items()
            }
            more, further = self._piece(
                some, some.pop("labels"), tf.random.experimental.stateless_fold_in(seed, i)
            )
            return i + 1, *tf.nest.map_structure(tf.add, (sums, gradients), (more, further))

        zeros = [tf.zeros(variable.shape) for variable in self.trainable_variables]
        _, sums, gradients = tf.while_loop(
            lambda i, *_: i < micro_batches,
            add,
            (0, _Sums(*[tf.constant(0.0)] * len(_Sums._fields)), zeros),
            parallel_iterations=1,
        )
        return sums, gradients

    def _piece(
        self, inputs: Any, labels: tf.Tensor, seed: tf.Tensor
    ) -> tuple[_Sums, list[tf.Tensor]]:
        with dropout_seed(seed), tf.GradientTape() as tape:
            result = self.token_loss(inputs, labels, training=True)
            variables = [variable.value for variable in self.trainable_variables]
            gradients = tape.gradient(result.loss, variables)
        source_tokens = tf.math.count_nonzero(inputs["source"], dtype=tf.float32)
        sums = _Sums(result.loss, result.log_loss, source_tokens, result.tokens)
        return sums, [tf.convert_to_tensor(gradient) for gradient in gradients]


def _trimmed(ids: tf.Tensor) -> tf.Tensor:
    """(B, T) ids without the columns at the end that only pad."""
    longest = tf.reduce_max(tf.math.count_nonzero(ids, axis=1, dtype=tf.int32))
    return ids[:, : tf.maximum(longest, 1)]
