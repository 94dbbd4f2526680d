from __future__ import annotations

import dataclasses

import pytest

from keras_transformer.config import TrainConfig
from keras_transformer.run import Run
from keras_transformer.training.distribution import Distribution, DistributionError
from keras_transformer.training.parts import build_parts, micro_batches
from keras_transformer.training.reporting.run_log import RunLog
from tests.training.helpers import with_train


@pytest.mark.parametrize(
    ("limit", "devices", "count"),
    [(0, 1, 1), (1000, 1, 4), (1000, 4, 1), (1000, 3, 2), (4000, 1, 1), (999, 1, 5)],
)
def test_micro_batches_of_4000_tokens(limit: int, devices: int, count: int) -> None:
    config = TrainConfig(batch_tokens=4000, micro_batch_tokens=limit)
    assert micro_batches(config, devices) == count


def test_xla_refuses_several_devices(trained: Run) -> None:
    class TwoDevices(Distribution):
        devices = 2

    run = dataclasses.replace(trained, config=with_train(trained.config, jit=True))
    message = r"train\.jit: expected false with several devices.*got true with 2"
    with pytest.raises(DistributionError, match=message):
        build_parts(run, run.prepared(print), RunLog(run.path, silent=True), TwoDevices())
