from __future__ import annotations

import math

import pytest

from keras_transformer.training.errors import TrainingError, check_finite, way_out


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_the_step(loss: float) -> None:
    check_finite(3.0, 12)
    with pytest.raises(TrainingError, match=f"the loss is {loss} at step 12$"):
        check_finite(loss, 12)


def test_the_way_out_names_a_checkpoint_only_where_there_is_one() -> None:
    assert way_out(200).startswith("The checkpoint of step 200 is still good: continue from it")
    assert "--resume --accept_changes" in way_out(200)
    assert way_out(0).startswith("There is no checkpoint yet: start again in another run folder")
    assert "--resume" not in way_out(0)
