from __future__ import annotations

import pytest

from keras_transformer.config import TrainConfig
from keras_transformer.training.parts import micro_batches


@pytest.mark.parametrize(
    ("limit", "devices", "count"),
    [(0, 1, 1), (1000, 1, 4), (1000, 4, 1), (1000, 3, 2), (4000, 1, 1), (999, 1, 5)],
)
def test_micro_batches_of_4000_tokens(limit: int, devices: int, count: int) -> None:
    config = TrainConfig(batch_tokens=4000, micro_batch_tokens=limit)
    assert micro_batches(config, devices) == count
