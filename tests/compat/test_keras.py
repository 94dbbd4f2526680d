"""Private parts of Keras: each one exists and does what the package uses it for."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.compat.keras import (
    DistributedModel,
    ReducedGradients,
    adam_moments,
    ema_variables,
    nested_layers,
)


class Counting(DistributedModel):
    """y = w x, with steps that count their batches."""

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(self(inputs, training=True) - targets))
        variables = [variable.value for variable in self.trainable_variables]
        self.optimizer.apply(tape.gradient(loss, variables), self.trainable_variables)
        return {"loss": loss, "inputs": tf.reduce_sum(inputs["x"])}


def counting_model(strategy: tf.distribute.Strategy) -> Counting:
    with strategy.scope():
        x = keras.Input((1,), name="x")
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = Counting({"x": x}, layer(x))
        optimizer = ReducedSgd(0.0)
        optimizer.build(model.trainable_variables)
        model.compile(optimizer=optimizer)
    return model


class ReducedSgd(ReducedGradients, keras.optimizers.SGD):
    pass


def fit(model: Counting, values: list[float]) -> tuple[list[dict[str, float]], list[float]]:
    """Train on batches of one number each; return the logs of the steps and the batches read."""
    read: list[float] = []

    def batches() -> Any:
        for value in values:
            read.append(value)
            yield {"x": [[value]]}, [[0.0]]

    floats = tf.TensorSpec((None, 1))
    data = tf.data.Dataset.from_generator(batches, output_signature=({"x": floats}, floats))
    all_logs: list[dict[str, float]] = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: all_logs.append(
            {name: float(value) for name, value in logs.items()}
        )
    )
    strategy = model.distribute_strategy
    model.fit(
        strategy.distribute_datasets_from_function(lambda _: data),
        steps_per_epoch=len(values),
        shuffle=False,
        verbose=0,
        callbacks=[callback],
    )
    return all_logs, read


@pytest.fixture(scope="module")
def strategy() -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(["CPU:0"])


def test_fit_reports_what_each_step_returns_and_reads_no_other_batch(
    strategy: tf.distribute.Strategy,
) -> None:
    model = counting_model(strategy)
    logs, read = fit(model, [1.0, 2.0, 3.0])
    assert logs == [{"loss": value**2, "inputs": value} for value in (1.0, 2.0, 3.0)]
    assert read == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["_maybe_symbolic_build", "make_train_function"])
def test_the_overridden_methods_of_models_exist_with_these_arguments(name: str) -> None:
    ours, theirs = (
        inspect.signature(getattr(model, name)) for model in (DistributedModel, keras.Model)
    )
    assert list(ours.parameters) == list(theirs.parameters)


def test_without_the_overrides_fit_reads_a_batch_more(strategy: tf.distribute.Strategy) -> None:
    """If this fails, the override of `_maybe_symbolic_build` is no longer needed."""

    class Plain(keras.Model):
        train_step = Counting.train_step

    with strategy.scope():
        x = keras.Input((1,), name="x")
        model = Plain({"x": x}, keras.layers.Dense(1)(x))
        model.compile(optimizer="sgd")
    read = fit(model, [1.0, 2.0])[1]
    assert len(read) > 2


@pytest.mark.parametrize("name", ["_all_reduce_sum_gradients", "finalize_variable_values"])
def test_the_overridden_methods_of_optimizers_exist(name: str) -> None:
    assert callable(getattr(keras.optimizers.Adam, name))
    assert getattr(ReducedSgd, name) is getattr(ReducedGradients, name)


def test_gradients_are_applied_without_another_reduction(
    strategy: tf.distribute.Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`apply` calls `_all_reduce_sum_gradients` and uses its result."""
    with strategy.scope():
        variable = keras.Variable([1.0])
        optimizer = ReducedSgd(1.0)
        optimizer.build([variable])
    monkeypatch.setattr(
        ReducedGradients,
        "_all_reduce_sum_gradients",
        lambda self, pairs: [(10 * gradient, variable) for gradient, variable in pairs],
    )
    strategy.run(lambda: optimizer.apply([tf.constant([2.0])], [variable]))
    np.testing.assert_allclose(variable.numpy(), [1.0 - 20.0])


@pytest.mark.parametrize("reduced", [True, False])
def test_fit_leaves_the_weights_in_place_of_their_average(
    strategy: tf.distribute.Strategy, reduced: bool
) -> None:
    bases = (ReducedGradients, keras.optimizers.SGD) if reduced else (keras.optimizers.SGD,)
    optimizer_class = type("Sgd", bases, {})
    with strategy.scope():
        model = counting_model(strategy)
        optimizer = optimizer_class(0.1, use_ema=True, ema_momentum=0.5)
        optimizer.build(model.trainable_variables)
        model.compile(optimizer=optimizer)
    fit(model, [1.0, 1.0])
    # w: 1, 0.8, 0.64; its average starts with 0.8, then (0.8 + 0.64) / 2.
    [average] = ema_variables(optimizer)
    np.testing.assert_allclose(average.numpy(), [[0.72]], rtol=1e-6)
    weight = 0.64 if reduced else 0.72
    np.testing.assert_allclose(model.get_weights()[0], [[weight]], rtol=1e-6)


def test_without_ema_there_are_no_averages() -> None:
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([keras.Variable([1.0])])
    assert ema_variables(optimizer) == []


def test_adam_moments_of_each_variable() -> None:
    """After one step m = (1 - beta_1) g and v = (1 - beta_2) g^2."""
    variables = [keras.Variable([1.0]), keras.Variable([1.0, 1.0])]
    optimizer = keras.optimizers.Adam(0.1, beta_1=0.5, beta_2=0.75, use_ema=True)
    optimizer.build(variables)
    optimizer.apply([np.array([2.0], "f"), np.array([4.0, 8.0], "f")], variables)
    for variable, first, second in zip(
        variables, ([1.0], [2.0, 4.0]), ([1.0], [4.0, 16.0]), strict=True
    ):
        moments = adam_moments(optimizer, variable.value)
        np.testing.assert_allclose(moments[0].numpy(), first, rtol=1e-6)
        np.testing.assert_allclose(moments[1].numpy(), second, rtol=1e-6)


def test_nested_layers_are_found_at_any_depth() -> None:
    class Inner(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="inner")
            self.dropout = keras.layers.Dropout(0.1, name="dropout")

    class Outer(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="outer")
            self.parts = [Inner(), keras.layers.Dense(1, name="dense")]

    names = [layer.name for layer in nested_layers(Outer())]
    assert names[0] == "outer"
    assert sorted(names) == ["dense", "dropout", "inner", "outer"]
