from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.compat.keras import ema_variables
from keras_transformer.config import TrainConfig
from keras_transformer.run import Run
from keras_transformer.training import trainer
from keras_transformer.training.averages import untried_averages
from keras_transformer.training.reporting.run_log import RunLog
from tests.training.helpers import records, without_times


def test_both_averages_are_tried_and_the_best_weights_win(complete: Run) -> None:
    found = records(complete)
    assert (found[-2]["averaged"], found[-1]["ema_decay"]) == (3, 0.5)
    best = min(record["dev_loss"] for record in found)
    parts = trainer.Trainer(complete, complete.prepared(print), RunLog(complete.path)).parts
    parts.model.set_weights(complete.model().get_weights())
    assert parts.dev_set.evaluate()[0]["dev_loss"] == pytest.approx(best, rel=1e-5)


def test_ema_follows_its_definition(complete: Run) -> None:
    """a_1 = w_1, a_n = (a_(n-1) + w_n) / 2, with the weights of the checkpoints."""

    def weight(step: int) -> np.ndarray:
        reader = tf.train.load_checkpoint(str(complete.path / "checkpoints" / f"step-{step}"))
        return reader.get_tensor("weights/0/.ATTRIBUTES/VARIABLE_VALUE")

    expected = weight(1)
    for step in (2, 3, 4):
        expected = (expected + weight(step)) / 2
    parts = trainer.Trainer(complete, complete.prepared(print), RunLog(complete.path)).parts
    parts.checkpoints.restore_latest()
    averages = ema_variables(parts.model.optimizer)
    np.testing.assert_allclose(averages[0], expected, rtol=1e-6, atol=1e-7)
    # In the order of the weights, which they replace for the test.
    assert [average.shape for average in averages] == [
        weight.shape for weight in parts.model.get_weights()
    ]


def test_an_average_that_a_signal_prevented_is_tried_on_resuming(
    complete_copy: Run, complete: Run
) -> None:
    lines = (complete_copy.path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (complete_copy.path / "metrics.jsonl").write_text("".join(lines[:-1]))
    trainer.train(complete_copy.config, complete_copy.path, resume=True)
    assert without_times(records(complete_copy)) == without_times(records(complete))


@pytest.mark.parametrize(
    ("decay", "fields", "untried"),
    [
        (0.0, [], ["averaged"]),
        (0.0, ["averaged"], []),
        (0.9, [], ["averaged", "ema_decay"]),
        (0.9, ["averaged"], ["ema_decay"]),
        (0.9, ["averaged", "ema_decay"], []),
    ],
)
def test_averages_without_a_score_at_the_last_step(
    decay: float, fields: list[str], untried: list[str]
) -> None:
    found = [
        {"step": 4, "averaged": 2, "ema_decay": 0.9},
        *({"step": 6, name: 1} for name in fields),
    ]
    assert untried_averages(found, TrainConfig(ema_decay=decay), 6) == untried
