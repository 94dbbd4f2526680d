"""Private parts of Keras that the package uses, and overrides of `Model.fit` and optimizers.

Checked with Keras 3.13.2 (TensorFlow 2.20) and Keras 3.15.1 (TensorFlow 2.21);
`tests/compat/test_keras.py` fails when one of them changes.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


class DistributedModel(keras.Model):
    """Functional model whose `train_step` all-reduces its results itself.

    `fit` works under every strategy, including `MultiWorkerMirroredStrategy`. The model's
    `train_step` runs in replica context and returns the same float scalars on every replica;
    `fit` hands them to the callbacks as the logs of the step.
    """

    train_function: Any
    _waiting_logs: Callable[[], list[dict[str, float]]] = staticmethod(list)
    late_logs = 0
    """Steps that `fit` launches before it waits for the logs of an earlier one. On a GPU, which
    works while Python prepares the next step, 1 leaves no pause between them; `fit` then reports
    each step after the next one, and `waiting_logs` has the last."""

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """No metrics, so that `fit` reports what `train_step` returns.

        Otherwise `Trainer._get_metrics_result_or_logs` replaces the loss of the step by that of
        Keras' loss tracker, which nothing updates.
        """
        return []

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Do nothing: the model is functional and its optimizer is built.

        `TensorFlowTrainer._maybe_symbolic_build` reads an extra batch and averages it over the
        replicas, which fails for dictionaries with several workers, and for replica batches of
        different sizes.
        """

    def make_train_function(self, force: bool = False) -> None:
        """Set `train_function`, which runs one step on every replica.

        `TensorFlowTrainer.make_train_function` reduces the results with
        `strategy.reduce("MEAN", value, axis=0)`, which fails for scalars with several workers.
        """
        if self.train_function is not None and not force:
            return
        strategy = self.distribute_strategy
        # XLA cannot all-reduce: with several replicas, `train_step` compiles a part of itself.
        jit = self.jit_compile and strategy.num_replicas_in_sync == 1

        @tf.function(autograph=False, reduce_retracing=True, jit_compile=jit)
        def replica_steps(data: Any) -> Any:
            return strategy.run(self.train_step, args=(data,))

        names: list[str] = []

        @tf.function(autograph=False, reduce_retracing=True)
        def step(iterator: Any) -> tf.Tensor:
            results = replica_steps(iterator.get_next())
            names[:] = results
            # One tensor, so that there is one copy from a GPU.
            return tf.stack(
                [strategy.experimental_local_results(value)[0] for value in results.values()]
            )

        waiting: collections.deque[tf.Tensor] = collections.deque()

        def train_function(iterator: Any) -> dict[str, float]:
            waiting.append(step(iterator))
            return logs() if len(waiting) > self.late_logs else {}

        def logs() -> dict[str, float]:
            return dict(zip(names, waiting.popleft().numpy().tolist(), strict=True))

        self.train_function = train_function
        self._waiting_logs = lambda: [logs() for _ in range(len(waiting))]

    def waiting_logs(self) -> list[dict[str, float]]:
        """Return the logs of the steps that `fit` has not reported yet, oldest first."""
        return self._waiting_logs()


class ReducedGradients:
    """Mixin for Keras optimizers whose gradients are already summed over the replicas.

    Keras' optimizers clip before they sum over the replicas. Each replica then clips by the norm
    of its own gradients, and training depends on the number of devices.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        """Return the pairs unchanged; `TFOptimizer` would sum the gradients over the replicas."""
        return grads_and_vars

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        """Give `update_step` the result of `rates`, computed once for all variables.

        The optimizer's public interface passes only the learning rate; a value that depends on
        the step would be computed for each variable.
        """
        super()._backend_update_step(  # type: ignore[misc]
            grads, trainable_variables, self.rates(learning_rate)
        )

    def rates(self, learning_rate: Any) -> Any:
        """Return the third argument of `update_step`: tensors that all variables share."""
        return learning_rate

    def finalize_variable_values(self, var_list: Any) -> None:
        """Do nothing; `fit` would replace the weights by their EMA at its end."""


def ema_variables(optimizer: keras.optimizers.Optimizer) -> list[tf.Variable]:
    """Return the EMA of each trainable weight, in the order of the weights.

    Keras has no public access to them; its only public method overwrites the weights by the EMA.

    Args:
        optimizer: A built optimizer; without ``use_ema`` the list is empty.
    """
    averages = optimizer._model_variables_moving_average if optimizer.use_ema else []
    return [variable.value for variable in averages]


def update_ema(
    optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable], finite: tf.Tensor
) -> None:
    """Update the EMA of each variable as Keras does, but not at all where ``finite`` is false.

    Keras' own `_update_model_variables_moving_average` has no condition, and `tf.cond` allows no
    update of mirrored variables inside.

    Args:
        optimizer: A built optimizer with ``use_ema``, before it counts the step.
        variables: Those that it was built for, in this order.
        finite: () bool.
    """
    decay = tf.where(optimizer.iterations.value == 0, 0.0, optimizer.ema_momentum)
    decay = tf.where(finite, decay, 1.0)
    averages = optimizer._model_variables_moving_average
    for variable, average in zip(variables, averages, strict=True):
        average.assign(decay * average + (1.0 - decay) * variable)


def adam_moments(
    optimizer: keras.optimizers.Adam, variable: tf.Variable
) -> tuple[tf.Variable, tf.Variable]:
    """Return Adam's first and second moment of a weight.

    The public `variables` also contain the EMA and the step count, in an order that depends on
    the optimizer's options.

    Args:
        optimizer: A built Adam.
        variable: A TensorFlow variable that it was built for, as given to `update_step`.
    """
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value, optimizer._velocities[index].value


def nested_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return a layer and all layers inside it, at any depth, the outermost first.

    The public `keras.Model.layers` lists only the direct children of a model, and plain layers
    have no such list.
    """
    return list(layer._flatten_layers())
