"""Training step, normalised by the number of real tokens of the whole batch."""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.compat.keras import DistributedModel
from keras_transformer.config import Config
from keras_transformer.devices import has_gpu
from keras_transformer.model import transformer
from keras_transformer.model.kernels.dropout import dropout_seed
from keras_transformer.training.fused_loss import projected_loss
from keras_transformer.training.loss import TokenLoss
from keras_transformer.training.loss_scale import LossScale
from keras_transformer.training.optimizer import build_optimizer


class StepOptions(NamedTuple):
    """Options of a training step."""

    smoothing: float = 0.0
    """Label smoothing."""
    seed: int = 1
    """Seed of dropout."""
    micro_batches: int = 1
    """Micro-batches per device, whose gradients are accumulated."""
    clip_norm: float = 0.0
    """Greatest global norm of the gradients; 0 disables clipping."""
    jit: bool = False
    """Compile the step with XLA; with several devices, all up to the all-reduce."""
    loss_unit: float = 0.0
    """Factor of the loss in front of a dynamic loss scale, about one over the tokens of a
    micro-batch, a power of two; 0: no loss scale."""


class _StepSums(NamedTuple):
    """Sums over the tokens of one micro-batch, one device or all devices; () float32 each."""

    loss: tf.Tensor
    log_loss: tf.Tensor
    source_tokens: tf.Tensor
    target_tokens: tf.Tensor


class TranslationModel(DistributedModel):
    """Transformer whose training step normalises by the number of real tokens.

    Loss and tokens are summed over the micro-batches of each device, then over the devices of
    all workers. The gradient of the sum is divided by the number of tokens, then clipped. So it
    is the gradient of the mean over all real tokens of the batch, for any number of devices and
    micro-batches. (Keras divides by rows and devices, clips on each device, and counts each
    accumulated micro-batch as a step of the learning rate schedule.)

    Build it by `transformer.build(config, dtype, TranslationModel)`, then call `configure`.
    """

    def configure(self, optimizer: keras.optimizers.Optimizer, options: StepOptions) -> None:
        """Build the optimizer and compile, in the scope of the distribution strategy.

        Args:
            optimizer: An optimizer with `compat.keras.ReducedGradients`, such as `ReducedAdam`.
                Its learning rate schedule counts batches, not micro-batches.
            options: Options of the step.

        Raises:
            ValueError: XLA with several micro-batches.
        """
        if options.jit and options.micro_batches > 1:
            raise ValueError(f"micro_batches: expected 1 with jit, got {options.micro_batches}")
        self._features = transformer.features(self)
        self._options = options
        self.loss_scale = LossScale() if options.loss_unit else None
        optimizer.build(self.trainable_variables)
        self.compile(optimizer=optimizer, jit_compile=options.jit)

    def token_loss(self, inputs: Any, labels: tf.Tensor, training: bool) -> TokenLoss:
        """Return the loss summed over the real tokens of a batch (section 5.4).

        Args:
            inputs: ``{"source": (B, S), "target": (B, T)}``, int32 ids.
            labels: (B, T) int32 ids.
            training: Whether dropout is applied.
        """
        features = self._features(inputs, training=training)  # (B, T, D)
        projection = transformer.projection(self)
        options = self._options
        return projected_loss(
            features,
            projection.matrix,
            labels,
            options.smoothing,
            fixed_shapes=options.jit,
            bias=projection.output_bias,
        )

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Take an optimizer step, in replica context.

        Args:
            data: ``(inputs, labels)`` as in `token_loss`, this device's shard of the batch. It
                may have no real token.

        Returns:
            Values of the whole batch, equal on all devices, () float32 each: ``loss`` and
            ``log_loss`` (means over target tokens), ``source_tokens``, ``target_tokens`` and
            ``gradient_norm`` before clipping. With a loss scale also ``loss_scale``, that of this
            step, and ``skipped``: 1 if its gradients overflowed, so that nothing is updated.
        """
        sums, gradients, statistics = self._accumulated_gradients(*data)
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            # Dense gradients, since replicas use different rows of the embedding.
            gradients, statistics, stacked = replica.all_reduce(
                tf.distribute.ReduceOp.SUM, [gradients, statistics, tf.stack(sums)]
            )
            sums = _StepSums(*tf.unstack(stacked, len(_StepSums._fields)))
        tokens = tf.maximum(sums.target_tokens, 1.0)
        divisor = tokens if self.loss_scale is None else tokens * self._factor(self.loss_scale)
        norm = tf.linalg.global_norm(gradients) / divisor
        scale = 1.0 / divisor
        if self._options.clip_norm:
            scale *= tf.minimum(1.0, self._options.clip_norm / tf.maximum(norm, 1e-30))
        results = {
            "loss": sums.loss / tokens,
            "log_loss": sums.log_loss / tokens,
            "source_tokens": sums.source_tokens,
            "target_tokens": sums.target_tokens,
            "gradient_norm": norm,
        }
        valid = sums.target_tokens > 0
        if self.loss_scale is None:
            self.optimizer.apply([each * scale for each in gradients], self.trainable_variables)
        else:
            finite = tf.math.is_finite(norm) & tf.math.is_finite(sums.loss)
            valid &= finite
            results |= self._apply_if(finite, gradients, scale, self.loss_scale)
        for weight, total in zip(self.non_trainable_weights, statistics, strict=True):
            # The local copy of each replica, since all assign the same mean of their statistics.
            value = tf.where(valid, total / tokens, weight.value)
            tf.raw_ops.AssignVariableOp(resource=weight.value.handle, value=value)
        return results

    def _apply_if(
        self,
        finite: tf.Tensor,
        gradients: list[tf.Tensor],
        scale: tf.Tensor,
        loss_scale: LossScale,
    ) -> dict[str, tf.Tensor]:
        """Apply gradients times ``scale`` if all are finite, and change the loss scale."""
        scale = tf.where(finite, scale, 0.0)
        gradients = [tf.math.multiply_no_nan(each, scale) for each in gradients]
        self.optimizer.apply_if(finite, gradients, self.trainable_variables)
        used = tf.identity(loss_scale.scale)
        skipped = loss_scale.update(finite)
        return {"loss_scale": used, "skipped": tf.cast(skipped, tf.float32)}

    def _factor(self, loss_scale: LossScale) -> tf.Tensor:
        """Return the factor of the loss in the backward pass, () float32."""
        return loss_scale.scale * self._options.loss_unit

    def _accumulated_gradients(
        self, inputs: Any, labels: tf.Tensor
    ) -> tuple[_StepSums, list[tf.Tensor], list[tf.Tensor]]:
        """Return `_gradients` of this device's shard, summed over its micro-batches."""
        replica = tf.distribute.get_replica_context()
        # Dropout masks depend only on seed, step, device and micro-batch, so that a resumed run
        # repeats them without any saved state.
        seed = tf.constant([self._options.seed, 0])
        with self._seed_device():
            for number in (self.optimizer.iterations.value, replica.replica_id_in_sync_group):
                seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(number, tf.int32))
        micro_batches = self._options.micro_batches
        if micro_batches == 1:
            compute = self._gradients
            if self._options.jit and replica.num_replicas_in_sync > 1:
                # A function for each replica, which has weights of its own. XLA cannot all-reduce.
                compute = tf.function(compute, autograph=False, jit_compile=True)
            return compute(inputs, labels, seed)

        with self._seed_device():
            fold_in = tf.random.experimental.stateless_fold_in
            seeds = tf.stack([fold_in(seed, i) for i in range(micro_batches)])  # (n, 2)
        rows = tf.shape(labels)[0]
        batch = inputs | {"labels": labels}

        def add(i: tf.Tensor, *totals: Any) -> Any:
            micro_batch = {
                name: _trimmed(ids[i * rows // micro_batches : (i + 1) * rows // micro_batches])
                for name, ids in batch.items()
            }
            new = self._gradients(micro_batch, micro_batch.pop("labels"), seeds[i])
            return i + 1, *tf.nest.map_structure(tf.add, totals, new)

        zeros, statistics = (
            [tf.zeros(variable.shape) for variable in variables]
            for variables in (self.trainable_variables, self.non_trainable_weights)
        )
        _, *totals = tf.while_loop(
            lambda i, *_: i < micro_batches,
            add,
            (0, _StepSums(*[tf.constant(0.0)] * len(_StepSums._fields)), zeros, statistics),
            parallel_iterations=1,
        )
        return tuple(totals)

    def _seed_device(self) -> contextlib.AbstractContextManager[Any]:
        """Place operations on the CPU: a GPU would send each seed back to the host and wait."""
        return contextlib.nullcontext() if self._options.jit else tf.device("CPU:0")

    def _gradients(
        self, inputs: Any, labels: tf.Tensor, seed: tf.Tensor
    ) -> tuple[_StepSums, list[tf.Tensor], list[tf.Tensor]]:
        """Return sums, gradients and statistics of one micro-batch.

        The gradients are dense and of the summed loss, times the loss scale if there is one. The
        statistics are the updated values of the weights that are not trainable, times the number
        of target tokens; the paper's model has none.
        """
        updates = keras.StatelessScope()
        with dropout_seed(seed), updates, tf.GradientTape() as tape:
            result = self.token_loss(inputs, labels, training=True)
            variables = [variable.value for variable in self.trainable_variables]
            loss = result.loss
            if self.loss_scale is not None:
                loss *= self._factor(self.loss_scale)
            gradients = tape.gradient(loss, variables)
        source_tokens = tf.math.count_nonzero(inputs["source"], dtype=tf.float32)
        sums = _StepSums(result.loss, result.log_loss, source_tokens, result.tokens)
        statistics = [
            updates.get_current_value(weight) * result.tokens
            for weight in self.non_trainable_weights
        ]
        return sums, [tf.convert_to_tensor(gradient) for gradient in gradients], statistics


def build_model(config: Config, micro_batches: int) -> TranslationModel:
    """Build the model and its optimizer, ready for `fit`, in the scope of the strategy.

    Args:
        config: The configuration; both vocabulary sizes are set.
        micro_batches: Micro-batches per device and batch, 1 or more.

    Raises:
        ValueError: ``train.precision`` is "auto", which `train` replaces by its choice.
    """
    train = config.train
    if train.precision == "auto":
        raise ValueError("train.precision: expected the choice for the devices, got 'auto'")
    devices = tf.distribute.get_strategy().num_replicas_in_sync
    tokens = train.batch_tokens / devices / micro_batches
    dtype = "float32" if train.precision == "float32" else f"mixed_{train.precision}"
    model = transformer.build(config.model, dtype, TranslationModel, train.gradient_checkpointing)
    options = StepOptions(
        train.label_smoothing,
        train.seed,
        micro_batches,
        train.clip_norm,
        train.jit,
        loss_unit(tokens) if train.precision == "float16" else 0.0,
    )
    model.configure(build_optimizer(config), options)
    model.late_logs = int(has_gpu())
    return model


def loss_unit(tokens: float) -> float:
    """Return the power of two closest to one over the tokens of a micro-batch.

    The gradient of the summed loss would soon leave the range of float16; times this it is about
    that of the mean. A power of two changes no digit.
    """
    return float(2.0 ** -round(math.log2(max(tokens, 1.0))))


def _trimmed(ids: tf.Tensor) -> tf.Tensor:
    """Return ids (B, T) without the trailing columns of padding only."""
    longest = tf.reduce_max(tf.math.count_nonzero(ids, axis=1, dtype=tf.int32))
    return ids[:, : tf.maximum(longest, 1)]
