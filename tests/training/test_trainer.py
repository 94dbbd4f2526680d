from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import Config
from keras_transformer.data.errors import DataError
from keras_transformer.evaluation.metrics import EvaluationError
from keras_transformer.inference.translator import Translator
from keras_transformer.optional_dependencies import missing
from keras_transformer.run import Run, RunError
from keras_transformer.system import FileError
from keras_transformer.training import trainer
from keras_transformer.training.reporting.run_log import TrainingError

Reversal = Callable[..., Config]


def records(run: Run) -> list[dict]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def with_train(config: Config, **train: object) -> Config:
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **train))


@pytest.fixture
def assert_same(last_checkpoint: Callable[[Path], dict[str, np.ndarray]]) -> Callable[..., None]:
    def compare(ours: Run, theirs: Run) -> None:
        """Weights, moments and the best score; the loss that is best may differ from BLEU."""
        one, other = last_checkpoint(ours.path), last_checkpoint(theirs.path)
        assert one.keys() == other.keys()
        for name in one:
            if not name.startswith("best"):
                np.testing.assert_array_equal(one[name], other[name], err_msg=name)

    return compare


# A run that was not interrupted


def test_a_short_run_leaves_a_whole_folder(trained: Run) -> None:
    names = {path.name for path in trained.path.iterdir()}
    assert names - {"curves.png"} == {
        "config.yaml",
        "versions.json",
        "tokenizer",
        "data",
        "log.txt",
        "metrics.jsonl",
        "steps.jsonl",
        "checkpoints",
        "best.weights.h5",
        "dev.translations.txt",
    }
    assert ("curves.png" in names) == (not missing(["matplotlib"]))
    found = records(trained)
    assert [record["step"] for record in found] == [2, 4, 6, 6]
    assert found[-1]["averaged"] == 2
    steps = trainer.RunLog(trained.path).steps()
    assert [record["step"] for record in steps] == [1, 2, 3, 4, 5, 6]
    assert steps[0]["learning_rate"] < steps[-1]["learning_rate"]
    for record in found[:-1]:
        assert record["train_perplexity"] > 1
        assert record["tokens_per_second"] > 0
    kept = {path.name for path in (trained.path / "checkpoints").glob("*.index")}
    assert kept == {"step-2.index", "step-4.index", "step-6.index"}
    assert len((trained.path / "dev.translations.txt").read_text().splitlines()) == 5
    log = (trained.path / "log.txt").read_text()
    assert "tokenizer: learning a vocabulary of 300" in log  # from before there was a folder
    assert "average of the last 2 checkpoints" in log
    # The folder alone is enough to translate, and sizes are filled in.
    opened = Run.open(trained.path)
    assert opened.config.model.source_vocabulary_size == opened.tokenizer().source.size
    assert len(Translator.from_run(trained.path).translate(["a b c", ""])) == 2


def test_an_existing_run_is_not_overwritten(trained: Run) -> None:
    before = (trained.path / "metrics.jsonl").read_text()
    with pytest.raises(RunError, match="exists already; go on with it by --resume"):
        trainer.train(trained.config, trained.path)
    assert (trained.path / "metrics.jsonl").read_text() == before


# Stopped by the clock after its first step, then finished, without BLEU


@pytest.fixture(scope="module")
def resumed(reversal: Reversal, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = reversal(dev_sentences=0, max_minutes=1e-6)
    run = trainer.train(config, tmp_path_factory.mktemp("runs") / "resumed")
    assert [record["step"] for record in records(run)] == [1, 1]
    return trainer.train(with_train(run.config, max_minutes=0.0), run.path, resume=True)


def test_stopped_and_resumed_equals_never_stopped(
    resumed: Run, trained: Run, assert_same: Callable[..., None]
) -> None:
    """Step 1 lies between two checkpoints; those after it lie where they always do."""
    assert_same(resumed, trained)
    assert [record["step"] for record in records(resumed)] == [1, 1, 2, 4, 6, 6]
    ours, theirs = records(resumed)[-1], records(trained)[-1]
    assert (ours["averaged"], ours["dev_loss"]) == (theirs["averaged"], theirs["dev_loss"])


def test_time_and_limits_of_a_resumed_run_are_kept(resumed: Run) -> None:
    seconds = [record["seconds"] for record in records(resumed) if "averaged" not in record]
    assert seconds == sorted(seconds)
    assert Run.open(resumed.path).config == resumed.config
    assert resumed.config.train.max_minutes == 0


def test_without_bleu_the_least_dev_loss_is_best(resumed: Run) -> None:
    best = min(records(resumed), key=lambda record: record["dev_loss"])
    training = trainer.Training(resumed, resumed.prepared(print), trainer.RunLog(resumed.path))
    training.model.set_weights(resumed.model().get_weights())
    scores, translations = training.dev_set.evaluate()
    assert scores["dev_loss"] == pytest.approx(best["dev_loss"], rel=1e-5)
    assert translations == []
    assert not (resumed.path / "dev.translations.txt").exists()


# Going on


def test_killed_and_resumed_equals_never_stopped(
    copied: Run,
    trained: Run,
    assert_same: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As if killed while the record of step 4 was being written."""
    for step in (4, 6):
        for path in (copied.path / "checkpoints").glob(f"step-{step}.*"):
            path.unlink()
    lines = (copied.path / "metrics.jsonl").read_text().splitlines()
    (copied.path / "metrics.jsonl").write_text(f"{lines[0]}\n{lines[1][:40]}")
    trainer.train(copied.config, copied.path, resume=True)
    assert "going on after step 2\n" in capsys.readouterr().err
    assert_same(copied, trained)
    ours, theirs = (
        [{key: value for key, value in record.items() if "second" not in key} for record in found]
        for found in (records(copied), records(trained))
    )
    assert ours == theirs


def test_resuming_a_finished_run_changes_nothing(
    copied: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def contents() -> dict[Path, bytes]:
        files = (path for path in copied.path.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files if path.name != "log.txt"}

    before = contents()
    trainer.train(copied.config, copied.path, resume=True)
    assert "finished before: 6 steps" in capsys.readouterr().err
    assert contents() == before


def test_a_better_average_stays_best_when_the_run_goes_on(copied: Run) -> None:
    """No checkpoint holds its score, as it is judged after the last one."""
    found = records(copied)
    found[-1]["dev_bleu"] = 99.0
    text = "".join(json.dumps(record) + "\n" for record in found)
    (copied.path / "metrics.jsonl").write_text(text)
    weights = copied.best_weights.read_bytes()
    trainer.train(with_train(copied.config, max_steps=7), copied.path, resume=True)
    assert [record["step"] for record in records(copied)] == [2, 4, 6, 6, 7, 7]
    assert copied.best_weights.read_bytes() == weights


def test_a_run_without_checkpoints_keeps_its_best_weights(copied: Run) -> None:
    for path in (copied.path / "checkpoints").iterdir():
        path.unlink()
    weights = copied.best_weights.read_bytes()
    with pytest.raises(RunError, match="no checkpoint is left to go on from"):
        trainer.train(with_train(copied.config, max_steps=7), copied.path, resume=True)
    assert copied.best_weights.read_bytes() == weights


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("model", {"d_ff": 64}, r"model\.d_ff: 32, now 64"),
        ("data", {"max_tokens": 100}, r"data\.max_tokens: 256, now 100"),
        ("train", {"checkpoint_every": 3}, r"train\.checkpoint_every: 2, now 3"),
        # BLEU of other sentences could not be compared with the best one so far.
        ("train", {"dev_sentences": 4}, r"train\.dev_sentences: 5, now 4"),
    ],
)
def test_what_would_make_another_run_is_not_resumed(
    trained: Run, section: str, change: dict, message: str
) -> None:
    part = dataclasses.replace(getattr(trained.config, section), **change)
    other = dataclasses.replace(trained.config, **{section: part})
    with pytest.raises(RunError, match=message):
        trainer.train(other, trained.path, resume=True)
    assert Run.open(trained.path).config == trained.config


def test_a_run_that_another_process_trains_is_not_resumed(trained: Run) -> None:
    with trained.locked(), pytest.raises(FileError, match="another process"):
        trainer.train(trained.config, trained.path, resume=True)


# What goes wrong


def test_bad_data_leave_no_run_behind(reversal: Reversal, tmp_path: Path) -> None:
    (tmp_path / "bad.a").write_text("a b\nc d\n")
    (tmp_path / "bad.b").write_text("one line\n")
    config = reversal()
    data = dataclasses.replace(config.data, train=str(tmp_path / "bad"))
    with pytest.raises(DataError, match="2 lines.*1"):
        trainer.train(dataclasses.replace(config, data=data), tmp_path / "runs" / "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_bleu_that_cannot_be_measured_is_refused_at_once(
    reversal: Reversal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        TOKENIZERS, TOKENIZER_DEFAULT = ("13a", "ko-mecab"), "13a"

        def __init__(self, **options: object) -> None:
            raise ImportError

    monkeypatch.setattr("keras_transformer.evaluation.metrics.BLEU", Missing)
    config = reversal()
    korean = dataclasses.replace(config, data=dataclasses.replace(config.data, target="ko"))
    with pytest.raises(EvaluationError, match=r"pip install 'sacrebleu\[ko\]'"):
        trainer.train(korean, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_spoilt_weights_are_never_saved(reversal: Reversal, tmp_path: Path) -> None:
    """The loss of the first step is a number; what its update leaves behind is none."""
    config = reversal(learning_rate_factor=1e30, checkpoint_every=1, dev_sentences=0)
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step 1 on the dev set"):
        trainer.train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "best.weights.h5").exists()
    assert not list((tmp_path / "run").glob("checkpoints/*"))
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_too_little_memory_is_told_with_the_option_that_helps(
    copied: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*arguments: object, **options: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    run = dataclasses.replace(copied, config=with_train(copied.config, max_steps=7))
    training = trainer.Training(run, run.prepared(print), trainer.RunLog(run.path))
    monkeypatch.setattr(training.model, "fit", exhausted)
    message = r"train\.micro_batch_tokens smaller than the 200 target tokens of now needs less"
    with pytest.raises(TrainingError, match=message):
        training.execute()


def test_bfloat16_trains(reversal: Reversal, trained: Run, tmp_path: Path) -> None:
    run = trainer.train(reversal(precision="bfloat16", dev_sentences=0), tmp_path / "run")
    ours, theirs = records(run)[2], records(trained)[2]
    assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=2e-2)
    assert run.model().dtype_policy.name == "float32"


@pytest.mark.slow
def test_xla_gives_the_losses_of_plain_execution(reversal: Reversal, tmp_path: Path) -> None:
    # Batches differ, since their shapes are fixed; the dev set is the same. Dropout draws
    # other numbers in other shapes, hence none.
    config = reversal(jit=True, max_steps=1, checkpoint_every=1)
    model = dataclasses.replace(config.model, dropout=0.0, attention_dropout=0.0)
    config = dataclasses.replace(config, model=model)
    compiled = trainer.train(config, tmp_path / "compiled")
    train = dataclasses.replace(compiled.config.train, jit=False)
    plain = dataclasses.replace(compiled, config=dataclasses.replace(compiled.config, train=train))
    training = trainer.Training(plain, compiled.prepared(print), trainer.RunLog(tmp_path))
    training.model.set_weights(compiled.model().get_weights())
    scores, _ = training.dev_set.evaluate()
    assert records(compiled)[0]["dev_loss"] == pytest.approx(scores["dev_loss"], rel=1e-5)


@pytest.mark.slow
def test_it_learns_to_reverse(reversal: Reversal, tmp_path: Path) -> None:
    config = reversal(
        max_steps=500, batch_tokens=1000, warmup_steps=100, checkpoint_every=250, dev_sentences=20
    )
    model = dataclasses.replace(
        config.model, d_model=64, heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0
    )
    data = dataclasses.replace(config.data, vocabulary_size=300)
    run = trainer.train(dataclasses.replace(config, model=model, data=data), tmp_path / "run")
    assert max(record["dev_bleu"] for record in records(run)) > 60
    translator = Translator.from_run(run.path)
    lines = ["a b c", "", "h g f e", "a"]
    together = [item.text for item in translator.translate(lines)]
    assert together == [translator.translate([line])[0].text for line in lines]
    assert together[1] == ""
