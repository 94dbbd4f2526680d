from __future__ import annotations

import math

import pytest

from keras_transformer.training.errors import TrainingError, check_finite


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_the_step(loss: float) -> None:
    check_finite(3.0, 12)
    with pytest.raises(TrainingError, match=f"the loss is {loss} at step 12;"):
        check_finite(loss, 12)
