"""The runner: one training each, continued after an interruption; failures are kept apart."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from keras_transformer import system
from keras_transformer.config import from_dict
from keras_transformer.errors import UserError
from keras_transformer.lab import record, run_statistics, runner
from keras_transformer.lab.experiment import Experiment, Variant
from keras_transformer.lab.jobs import Corpus, Job, make_job, make_jobs, read_corpus
from keras_transformer.lab.results import ResultError, Results
from keras_transformer.lab.runner import Laboratory
from keras_transformer.run import Run
from tests.lab.fake_results import result

WORDS = ("eins", "zwei", "drei", "vier", "fünf", "sechs")


@pytest.fixture
def text(tmp_path: Path) -> dict[str, Any]:
    """Write a small corpus; return the section ``data`` for it."""
    lines = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS[:3]]
    for name in ("train", "val"):
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}").write_text("\n".join(lines) + "\n", "utf-8")
    return {
        "train": str(tmp_path / "train"),
        "dev": str(tmp_path / "val"),
        "source": "en",
        "target": "de",
        "vocabulary_size": 300,
    }


EXPERIMENT = Experiment(
    "mine",
    "mine",
    (
        Variant("two heads", {"model.heads": 2}),
        Variant("short", {"data.max_tokens": 30}),
        Variant("greedy", {"search.beam": 1}),
    ),
    ("search",),
    "a",
    "b",
    "c",
    "d",
)


class Scripted:
    """Stands in for the processes that train and measure."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.fail: Callable[[str], int] = lambda path: 0

    def __call__(self, arguments: Sequence[str], output: Path) -> int:
        self.calls.append(list(arguments))
        if arguments[0] == "keras_transformer.train":
            assert Run.open(Path(arguments[-1])).prepared(lambda line: None)
            return self.fail(arguments[-1])
        searches = json.loads(arguments[3])
        final = result(20.0)["final"]
        values = {"run": result(), "scores": dict.fromkeys(searches, final)}
        Path(arguments[2]).write_text(json.dumps(values))
        return 0

    def trained(self) -> list[str]:
        return [
            Path(arguments[-1]).name for arguments in self.calls if arguments[0].endswith("train")
        ]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    found = Scripted()
    monkeypatch.setattr(runner, "_run_module", found)
    return found


def make(tmp_path: Path, text: dict[str, Any], **options: Any) -> tuple[Laboratory, list[Job]]:
    base = from_dict({"model": {"d_model": 16, "heads": 4, "d_ff": 16}, "data": text})
    found = read_corpus(base)
    folder = tmp_path / "lab"
    laboratory = Laboratory(
        folder, Results(folder / "results"), found, lambda line: None, **options
    )
    return laboratory, make_jobs([EXPERIMENT], base, 1, found)


def test_each_training_once_and_each_data_configuration_once(
    tmp_path: Path, text: dict[str, Any], scripted: Scripted
) -> None:
    laboratory, wanted = make(tmp_path, text)
    assert laboratory.run(wanted) == []
    # The greedy search uses the weights of the baseline.
    names = [name.rpartition("-")[0] for name in scripted.trained()]
    assert names == ["baseline-seed1", "two-heads-seed1", "short-seed1"]
    assert len(list((tmp_path / "lab" / "data").iterdir())) == 2
    results = Results(tmp_path / "lab" / "results")
    assert len(results) == 4
    greedy = next(job for job in wanted if job.overrides == {"search.beam": 1})
    [stored] = results.of_variant(greedy.variant_key)
    assert "curve" not in stored
    assert stored["final"]["bleu"] == 20.0


def test_what_is_done_is_not_done_again(
    tmp_path: Path, text: dict[str, Any], scripted: Scripted
) -> None:
    laboratory, wanted = make(tmp_path, text)
    laboratory.run(wanted[:1])
    scripted.calls.clear()
    again, _ = make(tmp_path, text)
    again.run(wanted)
    assert [name.rpartition("-")[0] for name in scripted.trained()] == [
        "two-heads-seed1",
        "short-seed1",
    ]
    scripted.calls.clear()
    make(tmp_path, text)[0].run(wanted)
    assert scripted.calls == []


def test_a_failure_leaves_no_result_and_the_others_go_on(
    tmp_path: Path, text: dict[str, Any], scripted: Scripted
) -> None:
    scripted.fail = lambda path: -9 if "two-heads" in path else 0
    laboratory, wanted = make(tmp_path, text)
    assert laboratory.run(wanted) == ["two-heads-seed1"]
    assert len(Results(tmp_path / "lab" / "results")) == 3
    scripted.fail = lambda path: 0
    scripted.calls.clear()
    laboratory, _ = make(tmp_path, text)
    assert laboratory.run(wanted) == []
    assert len(scripted.trained()) == 1  # resumed in its folder


def test_a_loss_that_is_not_finite_is_a_result(
    tmp_path: Path, text: dict[str, Any], scripted: Scripted
) -> None:
    def diverge(path: str) -> int:
        Path(path, "bad_batch.json").write_text('{"step": 7}')
        return 2

    scripted.fail = diverge
    laboratory, wanted = make(tmp_path, text)
    assert laboratory.run(wanted[:1]) == []
    assert len(Results(tmp_path / "lab" / "results")) == 1


def test_clean_and_measure_again(tmp_path: Path, text: dict[str, Any], scripted: Scripted) -> None:
    laboratory, wanted = make(tmp_path, text)
    laboratory.run(wanted[:1])
    [path] = (tmp_path / "lab" / "runs").iterdir()
    assert {each.name for each in (tmp_path / "lab").iterdir()} == {"runs", "data", "results"}
    assert not (path / "measured.json").exists()
    for name in ("checkpoints", "best"):
        (path / name).mkdir()
    scripted.calls.clear()
    make(tmp_path, text, measure_again=True, clean=True)[0].run(wanted[:1])
    assert [arguments[0] for arguments in scripted.calls] == ["keras_transformer.lab.measure"]
    assert not (path / "checkpoints").exists()
    assert not (path / "best").exists()
    scripted.calls.clear()
    make(tmp_path, text, measure_again=True)[0].run(wanted[:1])
    assert scripted.calls == []


def test_results_of_another_baseline_or_corpus_are_refused(tmp_path: Path) -> None:
    base = from_dict({"model": {"heads": 4}, "data": {"train": "/here/train", "dev": "/here/val"}})
    record.write(tmp_path, base, Corpus("a mistyped corpus", "nothing"))  # there is no result yet
    record.write(tmp_path, base, Corpus("m30k/train", "abc"))
    Results(tmp_path).add(make_job("mine", base, base, 1, Corpus("m30k/train", "abc")), result())
    record.write(tmp_path, base, Corpus("m30k/train", "abc"))
    assert "/here" not in (tmp_path / record.FILE).read_text()
    read, found = record.read(tmp_path)
    assert (read.model.heads, found) == (4, Corpus("m30k/train", "abc"))
    with pytest.raises(ResultError, match="expected the corpus m30k/train of the results"):
        record.write(tmp_path, base, Corpus("m30k/train", "other"))
    other = from_dict({"model": {"heads": 2, "d_ff": 64}}, base)
    with pytest.raises(ResultError, match="model.d_ff default, got 64; model.heads 4, got 2"):
        record.write(tmp_path, other, Corpus("m30k/train", "abc"))
    for text in ("[]", '{"format": 1, "corpus": "a", "name": "b", "baseline": [1]}'):
        (tmp_path / record.FILE).write_text(text)
        with pytest.raises(ResultError, match="expected the record of a laboratory's results"):
            record.read(tmp_path)
    values = {"format": 1, "corpus": "a", "name": "b", "baseline": {"model.nothing": 1}}
    (tmp_path / record.FILE).write_text(json.dumps(values))
    with pytest.raises(ResultError, match=r"laboratory.json: model.nothing: expected"):
        record.read(tmp_path)
    with pytest.raises(ResultError, match="none: expected results of a laboratory, found none yet"):
        record.read(tmp_path / "none")


@pytest.mark.parametrize(
    "changes", [{"curve": "x"}, {"measurements": [1]}, {"name": None}, {"overrides": []}]
)
def test_a_result_of_other_parts_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    base = from_dict({})
    path = Results(tmp_path).add(make_job("mine", base, base, 1, Corpus("a", "b")), result())
    assert len(Results(tmp_path)) == 1
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ResultError, match="other JSON; remove the file"):
        Results(tmp_path)


def test_a_run_that_ends_between_two_lines_of_its_log_has_tokens(
    tmp_path: Path, text: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = from_dict({"model": {"d_model": 16, "heads": 4, "d_ff": 16}, "data": text})
    run, prepared = Run.create(tmp_path / "run", config, lambda line: None)
    (run.path / "steps.jsonl").write_text("")
    point = {"event": "checkpoint", "step": 1, "dev_loss": 5.0, "dev_perplexity": 100.0}
    (run.path / "metrics.jsonl").write_text(json.dumps(point) + "\n")
    start = {"nll_per_token": 6.0, "ln_vocabulary": 5.7}
    monkeypatch.setattr(run_statistics.measurements, "measure", lambda run: start)
    monkeypatch.setattr(run_statistics, "run_parameters", lambda run: 1)

    found = run_statistics.collect(run)

    assert found["steps"] == found["curve"][0]["step"] == 1
    # All pairs fit into one batch.
    tokens = int(prepared.train.target_lengths.sum())
    assert found["target_tokens"] == found["curve"][0]["target_tokens"] == tokens


SIZES = (
    *("--model.d_model", "16", "--model.heads", "2", "--model.d_ff", "16"),
    *("--model.encoder_layers", "1", "--model.decoder_layers", "1", "--train.batch_tokens", "256"),
    *("--train.warmup_steps", "10", "--train.checkpoint_every", "10", "--train.dev_sentences", "8"),
)


def start(text: dict[str, Any], folder: Path, *arguments: str) -> subprocess.Popen[str]:
    data = [word for name, value in text.items() for word in (f"--data.{name}", str(value))]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "keras_transformer.lab",
            *arguments,
            *SIZES,
            *data,
            "--to",
            str(folder),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_real_laboratory_is_interrupted_and_continued(
    tmp_path: Path, text: dict[str, Any]
) -> None:
    folder = tmp_path / "lab"
    options = ("no-positions", "--seeds", "1", "--steps", "400")
    process = start(text, folder, *options)
    deadline = time.monotonic() + 300
    while not list(folder.glob("runs/*/checkpoints/*.index")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143
    assert not list(folder.glob("results/baseline-*.json"))

    output = start(text, folder, *options).communicate(timeout=900)
    results = Results(folder / "results")
    assert len(results) == 2, output
    [log] = [path.read_text() for path in folder.glob("runs/baseline-*/log.txt")]
    assert "resuming after step" in log
    [path] = folder.glob("results/baseline-*.json")
    found = json.loads(path.read_text())
    assert found["steps"] == 400
    assert found["outcome"] == "learned"
    assert found["first_loss"] == pytest.approx(found["ln_vocabulary"], rel=0.2)
    tokens = [point["target_tokens"] for point in found["curve"]]
    assert tokens == sorted(tokens)
    assert tokens[-1] == found["target_tokens"]
    assert len(found["measurements"]) > 2
    assert (folder / "report.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_killed_laboratory_ends_its_training_and_lets_no_other_one_in_before(
    tmp_path: Path, text: dict[str, Any]
) -> None:
    folder = tmp_path / "lab"
    options = ("no-positions", "--seeds", "1", "--steps", "100000")
    process = start(text, folder, *options)
    deadline = time.monotonic() + 300
    while not list(folder.glob("runs/*/checkpoints/*.index")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    second = start(text, folder, *options)
    assert "in use by another process" in second.communicate(timeout=120)[1]
    assert second.returncode == 2

    process.kill()
    process.communicate(timeout=60)

    [run] = (folder / "runs").iterdir()
    while True:  # the training saves and ends
        with contextlib.suppress(UserError), system.lock(run):
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "saved" in (run / "log.txt").read_text()


@pytest.mark.slow
def test_a_run_with_an_absurd_rate_diverges(tmp_path: Path, text: dict[str, Any]) -> None:
    folder = tmp_path / "lab"
    # Without clipping and normalization, weights of 1e15 overflow in float32.
    arguments = ("no-layer-norm", "--seeds", "1", "--steps", "60", "--train.learning_rate_factor")
    process = start(text, folder, *arguments, "1e4")
    output = process.communicate(timeout=900)
    assert process.returncode == 0, output
    found = [json.loads(path.read_text()) for path in folder.glob("results/*-seed1-*.json")]
    [broken] = [each for each in found if each["name"] == "no-layernorm-seed1"]
    assert broken["outcome"] == "diverged", output
    assert 0 < broken["diverged_at"] <= 60
    assert "diverged at step" in (folder / "report.html").read_text("utf-8")
