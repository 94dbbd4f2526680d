from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.config import Config, ModelConfig, TrainConfig
from keras_transformer.training.optimizer import ReducedAdam, build_optimizer


def after(optimizer: keras.optimizers.Optimizer, steps: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    variable = keras.Variable(rng.normal(size=(5, 3)), dtype="float32")
    optimizer.build([variable])
    for _ in range(steps):
        optimizer.apply([rng.normal(size=(5, 3)).astype(np.float32)], [variable])
    return np.asarray(variable.value)


def test_the_first_step_worked_out_by_hand() -> None:
    """m = 0.1 g and v = 0.02 g^2, corrected to g and g^2: a step as large as the rate."""
    optimizer = ReducedAdam(0.5, 0.9, 0.98, 1e-9)
    variable = keras.Variable([1.0, 1.0], dtype="float32")
    optimizer.build([variable])
    optimizer.apply([np.array([3.0, -0.2], np.float32)], [variable])
    np.testing.assert_allclose(variable.value, [0.5, 1.5], rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"use_ema": True, "ema_momentum": 0.9}])
def test_many_steps_equal_those_of_keras(options: dict[str, Any]) -> None:
    settings = {"learning_rate": 0.1, "beta_2": 0.98, "epsilon": 1e-9} | options
    ours = after(ReducedAdam(**settings), 25)
    np.testing.assert_allclose(ours, after(keras.optimizers.Adam(**settings), 25), atol=2e-6)


def test_it_is_built_from_the_configuration() -> None:
    train = TrainConfig(warmup_steps=2, learning_rate_factor=3.0, ema_decay=0.9, adam_beta_2=0.98)
    optimizer = build_optimizer(Config(model=ModelConfig(d_model=4, heads=1), train=train))
    # 3 * 4^-0.5 * 1 * 2^-1.5 = 0.5303301
    assert float(optimizer.learning_rate) == pytest.approx(0.5303301, rel=1e-6)
    assert (optimizer.use_ema, optimizer.ema_momentum) == (True, 0.9)
    assert (optimizer.beta_2, optimizer.clipnorm) == (0.98, None)
    assert not build_optimizer(Config()).use_ema
