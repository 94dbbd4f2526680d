from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_transformer.training.schedule import NoamSchedule


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        # 512^-0.5 = 0.0441942; 4000^-1.5 = 3.95285e-6. The first update is step 1.
        (0, 0.0441942 * 1 * 3.95285e-6),
        (1, 0.0441942 * 2 * 3.95285e-6),
        (1999, 0.0441942 * 2000 * 3.95285e-6),
        # Both branches meet at step 4000: 0.0441942 / sqrt(4000) = 6.98771e-4.
        (3999, 6.98771e-4),
        # Four times as far, half the rate.
        (15999, 3.493856e-4),
        (99999, 0.0441942 / 316.2278),
    ],
)
def test_rate_of_the_papers_base_model(step: int, rate: float) -> None:
    assert float(NoamSchedule(512, 4000)(step)) == pytest.approx(rate, rel=1e-5)


def test_factor_multiplies_and_step_may_be_of_any_integer_type() -> None:
    schedule = NoamSchedule(128, 2000, 2.53)
    # 2.53 / sqrt(128 * 2000) = 2.53 / 505.964
    for step in (1999, np.int64(1999), keras.ops.convert_to_tensor(1999, "int64")):
        assert float(schedule(step)) == pytest.approx(0.00500035, rel=1e-5)


@pytest.mark.parametrize(("step", "rate"), [(0, 0.25), (3, 0.25), (15, 0.125)])
def test_without_warm_up_the_peak_rate_comes_first_and_the_decay_is_the_same(
    step: int, rate: float
) -> None:
    # 4^-0.5 * 4^-0.5 = 0.25 up to step 4; 4^-0.5 * 16^-0.5 = 0.125 at step 16.
    assert float(NoamSchedule(4, 4, warmup="none")(step)) == pytest.approx(rate)
    if step >= 3:
        assert float(NoamSchedule(4, 4)(step)) == pytest.approx(rate)


def test_another_warm_up_is_refused() -> None:
    with pytest.raises(ValueError, match="warmup: expected linear or none, got 'cosine'"):
        NoamSchedule(4, 4, warmup="cosine")


def test_configuration_comes_back() -> None:
    schedule = NoamSchedule(128, 2000, 2.5, "none")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    expected = {"d_model": 128, "warmup_steps": 2000, "factor": 2.5, "warmup": "none"}
    assert copy.get_config() == expected
    assert float(copy(77)) == float(schedule(77))


def test_optimizer_uses_step_one_for_its_first_update() -> None:
    optimizer = keras.optimizers.SGD(NoamSchedule(4, 2))
    variable = keras.Variable(1.0)
    optimizer.apply([np.float32(1.0)], [variable])
    # 4^-0.5 * 1 * 2^-1.5 = 0.1767767
    assert float(variable.numpy()) == pytest.approx(1 - 0.1767767, rel=1e-6)


@pytest.mark.parametrize("arguments", [(0, 10), (10, 0)])
def test_refuses_sizes_below_one(arguments: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="expected 1 or more, got 0"):
        NoamSchedule(*arguments)
