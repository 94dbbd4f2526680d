from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.data.errors import DataError
from keras_transformer.data.prepared import Prepared
from keras_transformer.data.store import StoreError
from keras_transformer.run import Run, RunError
from keras_transformer.system import FileError
from keras_transformer.training import trainer
from keras_transformer.training.checkpoints import CheckpointError
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.parts import TrainingParts, build_parts
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.resuming import check_resumable, open_run, restore
from keras_transformer.training.stopping import Stopped
from tests.training.helpers import (
    Reversal,
    assert_same_checkpoint,
    last_checkpoint,
    records,
    remove_checkpoints,
    steps,
    with_train,
    without_times,
)

# Resuming a stopped run


@pytest.mark.slow
def test_stopped_by_the_clock_and_resumed_equals_never_stopped(
    reversal: Reversal, trained: Run, tmp_path: Path
) -> None:
    """The stop at step 1, between two checkpoints, does not shift later checkpoints."""
    run = trainer.train(reversal(max_minutes=1e-6), tmp_path / "run")
    assert steps(run) == [1, 1]
    run = trainer.train(with_train(run.config, max_minutes=0.0), run.path, resume=True)
    assert_same_checkpoint(run.path, trained.path)
    assert steps(run) == [1, 1, 2, 4, 6, 6]
    ours, theirs = records(run)[-1], records(trained)[-1]
    assert (ours["averaged"], ours["dev_loss"]) == (theirs["averaged"], theirs["dev_loss"])
    # Training times are summed, and the new limits are stored.
    seconds = [record["seconds"] for record in records(run) if "averaged" not in record]
    assert seconds == sorted(seconds)
    assert Run.open(run.path).config == run.config
    assert run.config.train.max_minutes == 0


def test_killed_and_resumed_equals_never_stopped(
    trained_copy: Run, trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """State of a run that was killed while it wrote the record of step 4."""
    remove_checkpoints(trained_copy, 4, 6)
    lines = (trained_copy.path / "metrics.jsonl").read_text().splitlines()
    (trained_copy.path / "metrics.jsonl").write_text(f"{lines[0]}\n{lines[1][:40]}")
    trainer.train(trained_copy.config, trained_copy.path, resume=True)
    assert "resuming after step 2\n" in capsys.readouterr().err
    assert_same_checkpoint(trained_copy.path, trained.path)
    assert without_times(records(trained_copy)) == without_times(records(trained))


def test_a_run_with_all_options_resumes_exactly(complete_resumed: Run, complete: Run) -> None:
    """BLEU, EMA, clipping and several best weights."""
    assert_same_checkpoint(complete_resumed.path, complete.path)
    assert without_times(records(complete_resumed)) == without_times(records(complete))
    ours, theirs = (
        {path.name for path in (run.path / "best").iterdir()}
        for run in (complete_resumed, complete)
    )
    assert ours == theirs


def test_leftovers_of_a_kill_right_after_the_last_checkpoint_are_removed(
    complete_copy: Run, complete: Run
) -> None:
    """The older checkpoint and the older weights in best/, which the kill left to this process."""
    for path in list((complete_copy.path / "checkpoints").glob("step-1.*")):
        shutil.copy(path, path.with_name(path.name.replace("step-1.", "step-0.")))
    kept = next((complete_copy.path / "best").iterdir())
    shutil.copy(kept, kept.with_name("0.weights.h5"))
    trainer.train(complete_copy.config, complete_copy.path, resume=True)
    for folder in ("checkpoints", "best"):
        ours, theirs = (
            {path.name for path in (run.path / folder).iterdir()}
            for run in (complete_copy, complete)
        )
        assert ours == theirs


def test_stopped_by_a_signal_and_resumed_equals_never_stopped(
    reversal: Reversal,
    trained: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """SIGTERM arrives at the end of step 2, which is saved although no checkpoint is due."""
    record_steps = RunLog.record_steps

    def record_and_signal(run_log: RunLog, values: dict[str, Any]) -> None:
        record_steps(run_log, values)
        if values["step"] == 2 and not (tmp_path / "signalled").exists():
            (tmp_path / "signalled").touch()
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(RunLog, "record_steps", record_and_signal)
    with pytest.raises(Stopped) as stopped:
        trainer.train(reversal(checkpoint_every=4), tmp_path / "run")
    assert stopped.value.code == 143
    assert "stopped by SIGTERM; saved at step 2, continue with --resume" in capsys.readouterr().err
    run = trainer.train(reversal(checkpoint_every=4), tmp_path / "run", resume=True)
    assert steps(run) == [4, 6, 6]
    ours, theirs = last_checkpoint(run.path), last_checkpoint(trained.path)
    for name in theirs:
        if not name.startswith("best"):  # other checkpoints, hence another best one
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.fixture
def parts(trained_copy: Run) -> Callable[[], TrainingParts]:
    """Return a function that builds the parts of a run like a process that resumes it."""
    return lambda: build_parts(
        trained_copy, trained_copy.prepared(print), RunLog(trained_copy.path), Distribution()
    )


def test_a_damaged_checkpoint_is_skipped(
    trained_copy: Run,
    trained: Run,
    parts: Callable[[], TrainingParts],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A changed bit of a weight breaks the checksum, and the steps are repeated."""
    [data] = (trained_copy.path / "checkpoints").glob("step-6.data*")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    built = parts()
    assert restore(built) == records(trained)[:2]
    assert steps(trained_copy) == [2, 4]
    assert built.state.step == 4
    assert built.checkpoints.steps() == [2, 4]
    log = capsys.readouterr().err
    assert re.search(r"step-6: damaged: .*; going back to step 4\n", log)
    assert "resuming after step 4\n" in log


@pytest.mark.parametrize("left", ["nothing", "a damaged one"])
def test_stopped_in_its_first_checkpoint_a_run_restarts(
    trained_copy: Run, parts: Callable[[], TrainingParts], left: str
) -> None:
    """Best weights and record exist; the checkpoint is missing or damaged."""
    if left == "a damaged one":
        for path in (trained_copy.path / "checkpoints").glob("step-2.*"):
            path.write_bytes(path.read_bytes()[:20])
        remove_checkpoints(trained_copy, 4, 6)
    else:
        remove_checkpoints(trained_copy, 2, 4, 6)
    first = (trained_copy.path / "metrics.jsonl").read_text().splitlines(keepends=True)[0]
    (trained_copy.path / "metrics.jsonl").write_text(first)
    built = parts()
    assert restore(built) == []
    assert records(trained_copy) == []
    assert (built.state.step, built.state.best_score) == (0, -math.inf)
    assert built.checkpoints.steps() == []


def test_a_run_without_checkpoints_keeps_its_best_weights(trained_copy: Run) -> None:
    remove_checkpoints(trained_copy, 2, 4, 6)
    weights = trained_copy.best_weights.read_bytes()
    longer = with_train(trained_copy.config, max_steps=7)
    with pytest.raises(RunError, match="no checkpoint is left to resume from"):
        trainer.train(longer, trained_copy.path, resume=True)
    assert trained_copy.best_weights.read_bytes() == weights


@pytest.mark.parametrize("file", ["train.target.ids", "dev.text.json", "fingerprint.json"])
def test_damaged_data_are_prepared_again_on_request(trained_copy: Run, file: str) -> None:
    """The corpus is still there, so that nothing is lost."""
    path, config = trained_copy.path / "data" / file, trained_copy.config
    whole = path.read_bytes()
    path.write_bytes(whole[:9])

    def load(accept_changes: bool) -> Prepared:
        distribution = Distribution()
        with open_run(
            config, trained_copy.path, True, accept_changes, distribution, print
        ) as opened:
            return opened[1]

    with pytest.raises(
        (DataError, StoreError), match=rf"{file}: .*again with --resume --accept_changes"
    ):
        load(accept_changes=False)
    assert len(load(accept_changes=True).train) == 300
    assert path.read_bytes() == whole


def test_data_of_a_later_version_are_prepared_again_on_request(trained_copy: Run) -> None:
    path = trained_copy.path / "data" / "fingerprint.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 9'))
    with (
        pytest.raises(DataError, match=r"expected format 2, got 9, .* --resume --accept_changes"),
        open_run(trained_copy.config, trained_copy.path, True, False, Distribution(), print),
    ):
        pass


def test_a_run_in_training_is_not_resumed_by_another_process(trained: Run) -> None:
    with trained.locked(), pytest.raises(FileError, match="another process"):
        trainer.train(trained.config, trained.path, resume=True)


# Resuming a finished run


def test_resuming_a_finished_run_changes_nothing_and_draws_missing_curves(
    trained_copy: Run, drawn: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def contents() -> dict[Path, bytes]:
        files = (path for path in trained_copy.path.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files if path.name != "log.txt"}

    before = contents()
    trainer.train(trained_copy.config, trained_copy.path, resume=True)
    assert "already finished: 6 steps" in capsys.readouterr().err
    assert contents() == before
    assert drawn == [trained_copy.path]
    (trained_copy.path / "curves.png").touch()
    trainer.train(trained_copy.config, trained_copy.path, resume=True)
    assert drawn == [trained_copy.path]


@pytest.mark.slow
def test_a_better_average_stays_best_when_the_run_continues(trained_copy: Run) -> None:
    """No checkpoint holds the score of an average, which is scored after the last one."""
    found = records(trained_copy)
    found[-1]["dev_loss"] = 0.01
    text = "".join(json.dumps(record) + "\n" for record in found)
    (trained_copy.path / "metrics.jsonl").write_text(text)
    weights = trained_copy.best_weights.read_bytes()
    longer = with_train(trained_copy.config, max_steps=7)
    trainer.train(longer, trained_copy.path, resume=True)
    assert steps(trained_copy) == [2, 4, 6, 6, 7, 7]
    assert trained_copy.best_weights.read_bytes() == weights


# Changed configurations and corpora


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("model", {"d_ff": 64}, r"model\.d_ff: 32, now 64"),
        ("data", {"max_tokens": 100}, r"data\.max_tokens: 256, now 100"),
        ("train", {"checkpoint_every": 3}, r"train\.checkpoint_every: 2, now 3"),
        ("train", {"seed": 9}, r"train\.seed: 1, now 9"),
        # BLEU of other sentences could not be compared with the best one so far.
        ("train", {"dev_sentences": 4}, r"train\.dev_sentences: 0, now 4"),
    ],
)
def test_changes_that_would_make_another_run_are_refused(
    reversal: Reversal, section: str, change: dict, message: str
) -> None:
    old = reversal()
    part = dataclasses.replace(getattr(old, section), **change)
    with pytest.raises(RunError, match=message):
        check_resumable(old, dataclasses.replace(old, **{section: part}))


def test_a_refused_change_leaves_the_run_as_it_is(trained: Run) -> None:
    with pytest.raises(RunError, match=r"train\.warmup_steps: 20, now 5"):
        trainer.train(with_train(trained.config, warmup_steps=5), trained.path, resume=True)
    assert Run.open(trained.path).config == trained.config


def test_limits_and_reporting_may_change(reversal: Reversal) -> None:
    other = reversal(max_steps=9, patience=2, keep_best=3, log_every=5, tensorboard=True)
    check_resumable(reversal(), other)


def test_the_user_may_accept_changes(trained_copy: Run) -> None:
    """Another schedule and more text, encoded with the vocabulary of the run."""
    source, corpus = Path(trained_copy.config.data.train), trained_copy.path.parent / "more"
    for side in ("a", "b"):
        text = source.with_suffix(f".{side}").read_text()
        corpus.with_suffix(f".{side}").write_text(text + "h h h\n")
    data = dataclasses.replace(trained_copy.config.data, train=str(corpus))
    config = with_train(trained_copy.config, max_steps=7, warmup_steps=5)
    config = dataclasses.replace(config, data=data)
    with pytest.raises(RunError, match=r"data\.train: .*train\.warmup_steps: 20, now 5"):
        trainer.train(config, trained_copy.path, resume=True)
    vocabulary = (trained_copy.path / "tokenizer" / "joint.model").read_bytes()
    run = trainer.train(config, trained_copy.path, resume=True, accept_changes=True)
    assert steps(run) == [2, 4, 6, 6, 7, 7]
    assert len(run.prepared(print).train) == 301
    assert (trained_copy.path / "tokenizer" / "joint.model").read_bytes() == vocabulary
    assert Run.open(trained_copy.path).config == config


def test_changed_and_damaged_data_are_refused_with_the_ways_out(trained_copy: Run) -> None:
    data, config = trained_copy.path / "data", trained_copy.config
    whole = (data / "fingerprint.json").read_text()
    values = json.loads(whole)
    for state in values["files"].values():  # as if each file had had another size
        state["bytes"] += 1
    (data / "fingerprint.json").write_text(json.dumps(values))
    message = r"\.a unchanged, got .*\. Restore the files .*, or accept .* --accept_changes"
    with pytest.raises(DataError, match=message):
        trainer.train(config, trained_copy.path, resume=True)

    (data / "fingerprint.json").write_text(whole)
    ids = data / "train.source.ids"
    ids.write_bytes(ids.read_bytes()[:-2])
    with pytest.raises(StoreError, match=r"\. Copy the run folder again, or encode the corpus"):
        trainer.train(config, trained_copy.path, resume=True)


@pytest.mark.parametrize(
    ("section", "change", "error", "message"),
    [
        (
            "data",
            {"vocabulary_size": 301},
            RunError,
            "vocabulary_size: 300, now 301. Its vocabulary cannot change: train a new run",
        ),
        ("model", {"d_ff": 64}, CheckpointError, "step-6: does not fit the network of this run"),
    ],
)
def test_accepted_changes_must_still_fit(
    trained_copy: Run, section: str, change: dict, error: type[Exception], message: str
) -> None:
    part = dataclasses.replace(getattr(trained_copy.config, section), **change)
    other = dataclasses.replace(trained_copy.config, **{section: part})
    with pytest.raises(error, match=message):
        trainer.train(other, trained_copy.path, resume=True, accept_changes=True)
    assert len(list(trained_copy.path.glob("checkpoints/*.index"))) == 3
    assert Run.open(trained_copy.path).config == trained_copy.config
