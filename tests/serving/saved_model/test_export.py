"""Versions on disk: whole or not at all, complete, small, and never overwritten."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer import system
from keras_transformer.evaluation.metrics import bleu
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving import warmup
from keras_transformer.serving.saved_model import export as saved_model
from keras_transformer.serving.saved_model import lint
from keras_transformer.serving.saved_model.export import export
from keras_transformer.serving.settings import ExportError, ExportSettings

QUICK = ExportSettings(dev_sentences=0)


def quietly(line: str) -> None:
    """Takes the progress."""


def size(folder) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_all_that_a_version_holds(small_export, small_run) -> None:
    assert small_export.name == "1"
    assert {path.name for path in small_export.iterdir()} == {
        "saved_model.pb",
        "fingerprint.pb",
        "variables",
        "assets.extra",
        "export.json",
    }
    assert [path.name for path in small_export.parent.iterdir()] == ["1"]
    assert small_export.stat().st_mode & 0o777 == 0o755
    names = {name for name, _ in tf.train.list_variables(str(small_export / "variables/variables"))}
    # One variable for all biases and gains, and one for each matrix, once.
    matrices = sum(len(weight.shape) == 2 for weight in small_run.model().weights)
    assert len(names - {"_CHECKPOINTABLE_OBJECT_GRAPH"}) == matrices + 1


def test_the_card_says_what_was_chosen_and_measured(small_export, small_run) -> None:
    card = json.loads((small_export / "export.json").read_text())
    assert (card["name"], card["version"]) == ("small", 1)
    assert card["languages"] == {"source": "en", "target": "de"}
    assert card["search"] == {
        "beam": 3,
        "alpha": 0.6,
        "n_best": 3,
        "max_extra": 4,
        "min_length": 0,
        "no_repeat_ngram": 0,
        "max_tokens": 60,
    }
    assert card["parameters"] == small_run.model().count_params()
    assert card["tokenizer"]["fingerprint"] == small_run.tokenizer().fingerprint
    assert card["model"]["d_model"] == 16
    assert card["versions"]["tensorflow"] == tf.__version__
    assert card["signatures"]["align"]["outputs"]["attention"] == {
        "dtype": "float32",
        "shape": [None, None, None],
    }
    assert set(card["signatures"]) == {
        "serving_default",
        "translate",
        "nbest",
        "options",
        "score",
        "align",
    }


def test_dev_bleu_is_that_of_the_served_graph(small_export, small_run, signatures) -> None:
    dev = json.loads((small_export / "export.json").read_text())["dev"]
    pairs = small_run.dev_pairs()
    answers = signatures["translate"](text=tf.constant([pair.source for pair in pairs]))
    texts = [text.decode() for text in answers["translation"].numpy()]
    assert dev["sentences"] == len(pairs) == 4
    assert dev["bleu"] == bleu(texts, [[pair.target for pair in pairs]], "de")
    assert "tok:13a" in dev["signature"]


def test_warm_up_runs_every_signature_in_several_sizes(small_export, signatures) -> None:
    seen = set()
    for record in tf.data.TFRecordDataset(str(small_export / warmup.FILE)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "small"
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        (rows,) = {len(values) for values in inputs.values()}
        function = signatures[request.model_spec.signature_name]
        function(**{key: tf.constant(values) for key, values in inputs.items()})
        seen.add((request.model_spec.signature_name, rows))
    assert seen == {(key, rows) for key in signatures for rows in (1, 8, 32)}


@pytest.mark.slow
def test_versions_count_up_and_are_not_overwritten(small_run, tmp_path) -> None:
    folder, search = tmp_path / "new" / "m", small_run.config.search
    assert export(small_run, search, folder, QUICK, quietly) == folder / "1"
    chosen = dataclasses.replace(QUICK, version=7)
    assert export(small_run, search, folder, chosen, quietly) == folder / "7"
    with pytest.raises(ExportError, match=r"7 is there already .* leave --version out for .* 8"):
        export(small_run, search, folder, chosen, quietly)
    assert export(small_run, search, folder, QUICK, quietly) == folder / "8"
    assert sorted(path.name for path in folder.iterdir()) == ["1", "7", "8"]


def test_what_a_killed_export_left_goes_with_the_next(small_run, tmp_path) -> None:
    folder = tmp_path / "m"
    (folder / ".export-killed" / "variables").mkdir(parents=True)
    export(small_run, small_run.config.search, folder, QUICK, quietly)
    assert [path.name for path in folder.iterdir()] == ["1"]


# Exports a run, and is sent a signal while the weights are written, or before the last step.
ENDED = """
import os, signal, sys, threading, time
from pathlib import Path

from keras_transformer.cli.main import import_tensorflow
import_tensorflow()
from keras_transformer import export
from keras_transformer.serving import version_folder

name, when, run, folder = sys.argv[1:]
number = signal.Signals[name]

def at_the_end(staging, place):
    assert (staging / "export.json").is_file()
    os.kill(os.getpid(), number)
    time.sleep(60)

def while_writing():
    while not list(Path(folder).glob(".export-*/variables")):
        time.sleep(0.001)
    os.kill(os.getpid(), number)

if when == "end":
    version_folder._publish = at_the_end
else:
    threading.Thread(target=while_writing, daemon=True).start()
sys.exit(export.main(["--run", run, "--to", folder, "--dev_sentences", "0"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "when", "status"),
    [("SIGKILL", "writing", -9), ("SIGKILL", "end", -9), ("SIGTERM", "writing", 143)],
)
def test_an_export_that_is_ended(small_run, tmp_path, name, when, status) -> None:
    folder = tmp_path / "m"
    done = subprocess.run(
        [sys.executable, "-c", ENDED, name, when, str(small_run.path), str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    left = [path.name for path in folder.iterdir()] if folder.exists() else []
    if name == "SIGTERM":
        assert left == []
        assert done.stderr == "terminated\n"
    else:
        assert [item[:8] for item in left] == [".export-"]  # which no server takes for a version
    version = export(small_run, small_run.config.search, folder, QUICK, quietly)
    assert version == folder / "1"
    assert [path.name for path in folder.iterdir()] == ["1"]


def test_rules_of_the_search_hold_in_the_export(small_run, tmp_path) -> None:
    search = dataclasses.replace(
        small_run.config.search, beam=2, min_length=7, no_repeat_ngram=1, max_extra=9
    )
    version = export(small_run, search, tmp_path / "m", QUICK, quietly)  # lint among it
    lines = ["A dog runs.", "The child sees a red ball.", ""]
    translator = Translator(small_run.model(), small_run.tokenizer(), search, small_run.config.data)
    expected = [item.text for item in translator.translate(lines)]
    found = tf.saved_model.load(str(version)).signatures["translate"](text=tf.constant(lines))
    assert [text.decode() for text in found["translation"].numpy()] == expected
    free = dataclasses.replace(search, min_length=0, no_repeat_ngram=0)
    without = Translator(small_run.model(), small_run.tokenizer(), free, small_run.config.data)
    assert [item.text for item in without.translate(lines)] != expected
    card = json.loads((version / "export.json").read_text())
    assert (card["search"]["min_length"], card["search"]["no_repeat_ngram"]) == (7, 1)


def test_samples_are_refused(small_run, tmp_path) -> None:
    search = dataclasses.replace(small_run.config.search, sample=True)
    with pytest.raises(ExportError, match=r"search\.sample: expected false"):
        export(small_run, search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


def test_each_step_is_told(small_run, tmp_path) -> None:
    lines: list[str] = []
    settings = dataclasses.replace(QUICK, dev_sentences=2)
    export(small_run, small_run.config.search, tmp_path / "m", settings, lines.append)
    assert lines[:-1] == [
        f"reading {small_run.path}",
        "tracing the graph and writing version 1 of m",
        "checking for what TensorFlow Serving would refuse",
        "translating 2 sentences of the dev set",
    ]
    assert lines[-1].endswith("on 2 sentences")


def test_two_exports_at_once_are_refused(small_run, tmp_path) -> None:
    with system.lock(tmp_path), pytest.raises(system.FileError, match="another process"):
        export(small_run, small_run.config.search, tmp_path, QUICK, quietly)


def test_a_failed_export_leaves_nothing(small_run, tmp_path, monkeypatch) -> None:
    def refuse(directory) -> None:
        assert (directory / "saved_model.pb").exists()
        raise lint.LintError("no")

    monkeypatch.setattr(export.lint, "check", refuse)
    with pytest.raises(lint.LintError):
        export(small_run, small_run.config.search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


def test_a_full_disk_is_said_and_leaves_nothing(small_run, tmp_path, monkeypatch) -> None:
    # A real disk is not filled here: its free space is made up.
    monkeypatch.setattr(
        system.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})()
    )
    with pytest.raises(system.FileError, match="MB are to be written"):
        export(small_run, small_run.config.search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


def test_a_run_without_weights_and_a_file_in_the_way(small_run, tmp_path) -> None:
    (tmp_path / "config.yaml").write_bytes((small_run.path / "config.yaml").read_bytes())
    search = small_run.config.search
    with pytest.raises(Exception, match="no best.weights.h5 yet"):
        export(Run.open(tmp_path), search, tmp_path / "m", QUICK, quietly)
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match="expected a folder"):
        export(small_run, search, tmp_path / "file", QUICK, quietly)


def test_more_positions_than_were_learned_are_refused(small_run, tmp_path) -> None:
    config = small_run.config
    learned = dataclasses.replace(config.model, positions="learned", max_positions=100)
    run = dataclasses.replace(small_run, config=dataclasses.replace(config, model=learned))
    settings = dataclasses.replace(QUICK, max_tokens=101)
    with pytest.raises(ExportError, match="expected at most 100"):
        export(run, config.search, tmp_path / "m", settings, quietly)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 0, "version: expected 1 or more, got 0"),
        ("version", 2**63, "version: expected at most 9223372036854775807"),
        ("dtype", "float16", "dtype: expected one of float32, bfloat16, int8, got 'float16'"),
        ("max_tokens", 1, "max_tokens: expected 2 or more, got 1"),
        ("dev_sentences", -1, "dev_sentences: expected 0 or more, got -1"),
        ("max_bleu_loss", -0.1, "max_bleu_loss: expected 0 or more, got -0.1"),
    ],
)
def test_settings_that_make_no_sense(field, value, message) -> None:
    with pytest.raises(ExportError, match=message):
        ExportSettings(**{field: value})


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "share"), [("bfloat16", 0.5), ("int8", 0.25)])
def test_fewer_bits_make_a_smaller_file(medium_run, tmp_path, dtype, share) -> None:
    settings = ExportSettings(dtype=dtype, max_bleu_loss=100.0)
    version = export(medium_run, medium_run.config.search, tmp_path / "m", settings, quietly)
    parameters = 4 * medium_run.model().count_params()
    assert size(version / "variables") < (share + 0.05) * parameters
    card = json.loads((version / "export.json").read_text())
    assert card["dtype"] == dtype
    assert set(card["dev"]) == {"bleu", "signature", "sentences", "float32_bleu"}
    answers = tf.saved_model.load(str(version)).signatures["nbest"](text=tf.constant(["A dog", ""]))
    assert np.isfinite(answers["scores"]).all()


def test_weights_that_lose_too_much_are_not_written(medium_run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(saved_model, "_served", lambda directory, sources: ["x"] * len(sources))
    references = [pair.target for pair in medium_run.dev_pairs()]

    class Perfect:
        def __init__(self, *arguments) -> None:
            pass

        def translate(self, sources):
            return [type("Found", (), {"text": text})() for text in references]

    monkeypatch.setattr(saved_model, "Translator", Perfect)
    settings = ExportSettings(dtype="int8")
    with pytest.raises(ExportError, match=r"at most 0.2 dev BLEU less .* got 0.00 for 100.00"):
        export(medium_run, medium_run.config.search, tmp_path / "m", settings, quietly)
    assert not (tmp_path / "m").exists()


@pytest.fixture(scope="module")
def medium_run(small_run, tmp_path_factory) -> Run:
    """Matrices large enough to be worth fewer bits."""
    model = dataclasses.replace(small_run.config.model, d_model=96, d_ff=192)
    config = dataclasses.replace(small_run.config, model=model)
    run, _ = Run.create(tmp_path_factory.mktemp("medium") / "run", config, quietly)
    run.save_best(transformer.build(run.config.model))
    return run


def test_no_more_on_disk_than_the_weights_need(medium_run, tmp_path) -> None:
    """The graph takes what it takes; for a network of any use that is little."""
    version = export(medium_run, medium_run.config.search, tmp_path / "m", QUICK, quietly)
    weights = 4 * medium_run.model().count_params()
    tokenizer = size(medium_run.path / "tokenizer")
    assert size(version / "variables") < 1.02 * weights
    graph = size(version) - size(version / "variables") - tokenizer
    assert graph < 400_000
