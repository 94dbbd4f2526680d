from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keras_transformer.config import TrainConfig
from keras_transformer.run import Run
from keras_transformer.training.best_weights import BestWeights
from keras_transformer.training.state import TrainingState
from tests.training.helpers import records


class Folder:
    """Stand-in for a run folder that records the calls."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    def save_best(self, model: Any) -> None:
        self.stored.append("best")

    def save_checkpoint_weights(self, model: Any, step: int) -> None:
        self.stored.append(step)

    def write_dev_translations(self, lines: list[str]) -> None:
        self.stored.append(lines)


def best_weights(writes: bool = True, **config: Any) -> tuple[BestWeights, TrainingState, Folder]:
    folder, state = Folder(), TrainingState(SimpleNamespace())
    return BestWeights(folder, TrainConfig(**config), state, writes), state, folder


def test_only_better_weights_are_stored() -> None:
    best, state, folder = best_weights(best_by="bleu")
    scores = {"dev_loss": 2.0, "dev_bleu": 30.0}
    assert best.offer(None, scores, ["x"], step=2)
    assert not best.offer(None, scores, ["y"], step=4)
    assert not best.offer(None, {"dev_loss": 1.0, "dev_bleu": 29.0}, ["z"], step=6)
    assert folder.stored == ["best", ["x"]]
    assert (state.best_score, state.best_loss, state.best_step) == (30.0, 2.0, 2)


@pytest.mark.parametrize("bleu", [[0.0, 0.0, 0.0], [0.83, 0.2, 0.0], [100.0, 100.0, 100.0]])
def test_without_information_in_bleu_the_lowest_loss_is_best(bleu: list[float]) -> None:
    """Weights, ranking and patience: the loss falls, rises above the first, and falls again."""
    best, state, folder = best_weights(keep_best=2, patience=1, checkpoint_every=2)
    found = [
        {"step": step, "dev_loss": loss, "dev_bleu": score}
        for step, loss, score in zip((2, 4, 6), (9.0, 9.5, 8.0), bleu, strict=True)
    ]
    kept = [best.offer(None, record, [], step=record["step"]) for record in found]
    assert kept == [True, False, True]
    assert (state.best_loss, state.best_step, folder.stored) == (8.0, 6, ["best", "best"])
    assert not best.patience_exhausted(6)
    best.keep_if_ranked(None, found, 2)
    best.keep_if_ranked(None, found, 4)
    best.keep_if_ranked(None, found, 6)
    assert folder.stored[2:] == [2, 6]


def test_an_average_with_a_lower_loss_wins_where_bleu_is_equal() -> None:
    best, state, _ = best_weights()
    assert best.offer(None, {"dev_loss": 2.0, "dev_bleu": 0.0}, [], step=2)
    assert best.offer(None, {"dev_loss": 1.9, "dev_bleu": 0.0}, [])
    assert not best.offer(None, {"dev_loss": float("nan"), "dev_bleu": 7.0}, [])
    assert (state.best_loss, state.best_step) == (1.9, 2)


def test_a_resumed_run_knows_score_loss_and_step_of_the_best() -> None:
    """A checkpoint holds score and step only, from before the average at its step."""
    found = [
        {"step": 2, "dev_loss": 3.0, "dev_bleu": 20.0},
        {"step": 4, "dev_loss": 2.0, "dev_bleu": 20.0},
        {"step": 6, "dev_loss": 2.5, "dev_bleu": 20.0},
        {"step": 6, "averaged": 2, "dev_loss": 1.5, "dev_bleu": 20.0},
        {"step": 6, "ema_decay": 0.9, "dev_loss": None, "dev_bleu": 30.0},
    ]
    for records_left in (3, 5):
        best, state, _ = best_weights()
        state.best_score, state.best_step = 20.0, 4  # as restored
        best.restore(found[:records_left])
        loss = {3: 2.0, 5: 1.5}[records_left]
        assert (state.best_score, state.best_loss, state.best_step) == (20.0, loss, 4)
        assert not best.offer(None, {"dev_loss": loss, "dev_bleu": 20.0}, [], step=8)
    best, state, _ = best_weights()
    state.best_score, state.best_step = 20.0, 4
    best.restore([])  # metrics.jsonl was deleted
    assert not best.offer(None, {"dev_loss": 9.0, "dev_bleu": 19.0}, [], step=8)


def test_other_workers_than_the_chief_know_the_best_and_write_nothing() -> None:
    best, state, folder = best_weights(writes=False)
    assert best.offer(None, {"dev_loss": 2.0}, ["x"], step=2)
    assert folder.stored == []
    assert (state.best_score, state.best_step) == (-2.0, 2)


def test_averages_do_not_reset_patience() -> None:
    """After patience has ended a run, a best average does not continue it."""
    best, state, _ = best_weights(patience=2, best_by="loss", checkpoint_every=2)
    assert best.offer(None, {"dev_loss": 3.0}, [], step=2)
    assert not best.patience_exhausted(5)
    assert best.patience_exhausted(6)
    assert best.offer(None, {"dev_loss": 2.0}, [])
    best.restore([{"step": 6, "averaged": 2, "dev_loss": 1.0}])
    assert best.patience_exhausted(6)
    assert state.best_score == -1.0


@pytest.mark.parametrize("patience", [0, 3])
def test_without_or_within_patience_a_run_continues(patience: int) -> None:
    best, _, _ = best_weights(patience=patience, checkpoint_every=2)
    assert not best.patience_exhausted(5)


def test_the_weights_of_the_best_checkpoints_are_kept(complete: Run) -> None:
    """With keep_best 2, two of four checkpoints; averages do not count."""
    checkpoints = records(complete)[:4]
    ranked = sorted(checkpoints, key=lambda record: record["dev_loss"])[:2]
    kept = {path.name for path in Path(complete.path / "best").iterdir()}
    assert kept == {f"{record['step']}.weights.h5" for record in ranked}
