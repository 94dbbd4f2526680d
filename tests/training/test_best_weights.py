"""Which checkpoints and weights a run keeps, and what it may go on with."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import Config
from keras_transformer.run import Run, RunError
from keras_transformer.training import trainer
from keras_transformer.training.best_weights import BestWeights
from keras_transformer.training.checkpoints import CheckpointError
from keras_transformer.training.reporting.run_log import TrainingError

Reversal = Callable[..., Config]


def records(run: Run) -> list[dict]:
    return trainer.RunLog(run.path).records()


def with_train(config: Config, **train: object) -> Config:
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **train))


# Weights


def test_several_averages_are_tried_and_the_best_is_the_model(
    reversal: Reversal, tmp_path: Path
) -> None:
    run = trainer.train(
        reversal(best_by="loss", ema_decay=0.5, keep_best=2, clip_norm=0.5), tmp_path / "run"
    )
    found = records(run)
    assert [record["step"] for record in found] == [2, 4, 6, 6, 6]
    assert (found[3]["averaged"], found[4]["ema_decay"]) == (2, 0.5)
    best = min(record["dev_loss"] for record in found)
    training = trainer.Training(run, run.prepared(print), trainer.RunLog(tmp_path))
    training.model.set_weights(run.model().get_weights())
    assert training.dev_set.evaluate()[0]["dev_loss"] == pytest.approx(best, rel=1e-5)
    ranked = sorted(found[:3], key=lambda record: record["dev_loss"])[:2]
    kept = {path.name for path in (run.path / "best").iterdir()}
    assert kept == {f"{record['step']}.weights.h5" for record in ranked}


def test_the_moving_average_is_the_one_of_the_definition(
    reversal: Reversal, tmp_path: Path
) -> None:
    """a_1 = w_1, a_n = (a_(n-1) + w_n) / 2, with the weights that the checkpoints hold."""
    config = reversal(ema_decay=0.5, checkpoint_every=1, average=3, max_steps=4)
    run = trainer.train(config, tmp_path / "run")

    def weight(step: int) -> np.ndarray:
        reader = tf.train.load_checkpoint(str(run.path / "checkpoints" / f"step-{step}"))
        return reader.get_tensor("weights/0/.ATTRIBUTES/VARIABLE_VALUE")

    expected = weight(1)
    for step in (2, 3, 4):
        expected = (expected + weight(step)) / 2
    training = trainer.Training(run, run.prepared(print), trainer.RunLog(tmp_path))
    training.checkpoints.restore_latest()
    averages = training.model.optimizer.ema_weights()
    np.testing.assert_allclose(averages[0], expected, rtol=1e-6, atol=1e-7)
    # In the order of the weights, in whose place they are tried.
    assert [average.shape for average in averages] == [
        weight.shape for weight in training.model.get_weights()
    ]


def test_patience_ends_a_run_that_gets_no_better(reversal: Reversal, tmp_path: Path) -> None:
    """At a rate of next to nothing no checkpoint is better than the first, at step 2."""
    config = reversal(learning_rate_factor=1e-30, best_by="loss", patience=3, max_steps=100)
    run = trainer.train(config, tmp_path / "run")
    assert [record["step"] for record in records(run)] == [2, 4, 6, 8, 8]
    longer = trainer.train(with_train(run.config, patience=4), tmp_path / "run", resume=True)
    assert [record["step"] for record in records(longer)] == [2, 4, 6, 8, 8, 10, 10]


def test_an_average_is_no_checkpoint_to_wait_after(copied: Run) -> None:
    """Patience has ended a run: that its average was the best does not make it go on."""
    config = dataclasses.replace(copied.config.train, patience=2, best_by="loss")
    training = trainer.Training(copied, copied.prepared(print), trainer.RunLog(copied.path))
    best = BestWeights(copied, config, training.checkpoints, writes=False)
    assert best.offer(training.model, {"dev_loss": 3.0}, [], step=2)
    assert best.is_long_ago(6)
    assert best.offer(training.model, {"dev_loss": 2.0}, [])
    best.offer_record({"step": 6, "averaged": 2, "dev_loss": 1.0})
    assert best.is_long_ago(6)
    assert best.score == -1.0


def test_an_average_that_a_signal_kept_from_being_tried_is_tried_on_resuming(
    reversal: Reversal, tmp_path: Path
) -> None:
    run = trainer.train(reversal(ema_decay=0.5, best_by="loss"), tmp_path / "run")
    found = records(run)
    lines = (run.path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run.path / "metrics.jsonl").write_text("".join(lines[:-1]))
    trainer.train(run.config, run.path, resume=True)
    assert records(run) == found


# Checkpoints


def test_a_damaged_checkpoint_is_passed_over(
    copied: Run,
    trained: Run,
    last_checkpoint: Callable[[Path], dict[str, np.ndarray]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One bit of a weight is another: the checksum tells, and the steps are taken again."""
    [data] = (copied.path / "checkpoints").glob("step-6.data*")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    trainer.train(copied.config, copied.path, resume=True)
    told = capsys.readouterr().err
    assert re.search(r"step-6: damaged: .*; going back to step 4\n", told)
    assert "going on after step 4\n" in told
    ours, theirs = last_checkpoint(copied.path), last_checkpoint(trained.path)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize("left", ["nothing", "a damaged one"])
def test_stopped_in_its_first_checkpoint_a_run_begins_again(
    copied: Run,
    trained: Run,
    left: str,
    last_checkpoint: Callable[[Path], dict[str, np.ndarray]],
) -> None:
    """The best weights and the record are there already; the checkpoint is not, or not whole."""
    for step in (2, 4, 6):
        for path in (copied.path / "checkpoints").glob(f"step-{step}.*"):
            if step == 2 and left == "a damaged one":
                path.write_bytes(path.read_bytes()[:20])
            else:
                path.unlink()
    first = (copied.path / "metrics.jsonl").read_text().splitlines(keepends=True)[0]
    (copied.path / "metrics.jsonl").write_text(first)
    trainer.train(copied.config, copied.path, resume=True)
    ours, theirs = last_checkpoint(copied.path), last_checkpoint(trained.path)
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert [record["step"] for record in records(copied)] == [2, 4, 6, 6]


def test_a_loss_that_is_no_number_keeps_the_batch_that_made_it_so(
    reversal: Reversal, tmp_path: Path
) -> None:
    config = reversal(learning_rate_factor=1e30, checkpoint_every=4, dev_sentences=0)
    place = r"at step 2, batch 2 of epoch 1; .*The pairs of that step are in .*bad_batch\.json"
    with pytest.raises(TrainingError, match=place):
        trainer.train(config, tmp_path / "run")
    told = json.loads((tmp_path / "run" / "bad_batch.json").read_text())
    assert told["step"] == 2
    sources = Path(f"{config.data.train}.a").read_text().splitlines()
    assert len(told["pairs"]) > 10
    for pair in told["pairs"]:
        assert pair["source"] == sources[pair["position"]]
        assert pair["target"] == pair["source"][::-1]
    assert not list((tmp_path / "run").glob("checkpoints/*"))


# Changes


def test_changes_are_accepted_where_the_user_says_so(copied: Run) -> None:
    """Another schedule, and more text, which is encoded with the run's own vocabulary."""
    source, corpus = Path(copied.config.data.train), copied.path.parent / "more"
    for side in ("a", "b"):
        text = source.with_suffix(f".{side}").read_text()
        corpus.with_suffix(f".{side}").write_text(text + "h h h\n")
    data = dataclasses.replace(copied.config.data, train=str(corpus))
    config = dataclasses.replace(with_train(copied.config, max_steps=7, warmup_steps=5), data=data)
    with pytest.raises(RunError, match=r"data\.train: .*train\.warmup_steps: 20, now 5"):
        trainer.train(config, copied.path, resume=True)
    pieces = (copied.path / "tokenizer" / "joint.model").read_bytes()
    run = trainer.train(config, copied.path, resume=True, accept_changes=True)
    assert [record["step"] for record in records(run)] == [2, 4, 6, 6, 7, 7]
    assert len(run.prepared(print).train) == 301
    assert (copied.path / "tokenizer" / "joint.model").read_bytes() == pieces
    assert Run.open(copied.path).config == config


@pytest.mark.parametrize(
    ("section", "change", "error", "message"),
    [
        (
            "data",
            {"vocabulary_size": 301},
            RunError,
            "vocabulary_size: 300, now 301. Its vocabulary cannot",
        ),
        ("model", {"d_ff": 64}, CheckpointError, "step-6: does not fit the network of this run"),
    ],
)
def test_what_cannot_fit_is_refused_all_the_same(
    copied: Run, section: str, change: dict, error: type[Exception], message: str
) -> None:
    part = dataclasses.replace(getattr(copied.config, section), **change)
    other = dataclasses.replace(copied.config, **{section: part})
    with pytest.raises(error, match=message):
        trainer.train(other, copied.path, resume=True, accept_changes=True)
    assert len(list(copied.path.glob("checkpoints/*.index"))) == 3
    assert Run.open(copied.path).config == copied.config
