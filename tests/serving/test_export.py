"""The outline of an export, with a writer that needs no graph; and exports that are killed."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from keras_transformer import system
from keras_transformer.data.pairs import Pair
from keras_transformer.run import Run, RunError
from keras_transformer.serving import export as serving_export
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportError, ExportSettings
from keras_transformer.validation import ConfigError

QUICK = ExportSettings(dev_sentences=0)


def quietly(line: str) -> None:
    """Ignore the progress."""


class StubWriter:
    """Writes a text file; its translations are configurable."""

    translations = "x"
    float32_translations = "x"

    def __init__(self, run, search, max_tokens, dtype) -> None:
        self.tokenizer = run.tokenizer()
        self.parameters = 42
        self.bytes = 1000
        self.libraries = {"engine": "1.0"}
        self.search = search

    def write(self, folder, name, log) -> None:
        (folder / "model").write_text(name)
        log("writing the stub")

    def interface(self):
        return {"format": "stub", "beam": self.search.beam}

    def translate(self, folder, lines):
        assert (folder / "model").is_file()
        return [self.translations] * len(lines)

    def translate_float32(self, folder, lines):
        return [self.float32_translations] * len(lines)


@pytest.fixture
def writer(monkeypatch) -> type[StubWriter]:
    """A stub in place of the SavedModel writer."""
    stub = type("Stub", (StubWriter,), {})
    monkeypatch.setitem(serving_export.WRITERS, "saved_model", lambda: stub)
    return stub


def test_versions_count_up_and_are_not_overwritten(writer, small_run, tmp_path) -> None:
    folder, search = tmp_path / "new" / "m", small_run.config.search
    assert export(small_run, search, folder, QUICK, quietly) == folder / "1"
    chosen = dataclasses.replace(QUICK, version=7)
    assert export(small_run, search, folder, chosen, quietly) == folder / "7"
    with pytest.raises(ExportError, match=r"7 is there already .* leave --version out for .* 8"):
        export(small_run, search, folder, chosen, quietly)
    assert export(small_run, search, folder, QUICK, quietly) == folder / "8"
    assert sorted(path.name for path in folder.iterdir()) == ["1", "7", "8"]
    assert {path.name for path in (folder / "8").iterdir()} == {"model", "export.json"}
    card = json.loads((folder / "8" / "export.json").read_text())
    assert (card["name"], card["version"], card["parameters"]) == ("m", 8, 42)
    assert (card["format"], card["beam"], card["versions"]["engine"]) == ("stub", 3, "1.0")
    assert card["dev"] is None
    assert (card["format_number"], card["sha256"]) == (1, {})  # the stub writes no graph


def test_progress(writer, small_run, tmp_path) -> None:
    lines: list[str] = []
    settings = ExportSettings(dev_sentences=2, dtype="bfloat16")
    export(small_run, small_run.config.search, tmp_path / "m", settings, lines.append)
    assert lines == [
        f"reading {small_run.path}",
        "writing version 1 of m",
        "writing the stub",
        "translating 2 sentences of the dev set",
        "dev BLEU 0.00 on 2 sentences",
        "dev BLEU 0.00 with weights in float32",
        "dev BLEU below 1 says nothing about the weights; the translations agree with those in "
        "float32 by chrF 100.00",
    ]
    dev = json.loads((tmp_path / "m" / "1" / "export.json").read_text())["dev"]
    assert (dev["sentences"], dev["bleu"], dev["float32_bleu"]) == (2, 0.0, 0.0)
    assert dev["float32_agreement"] == 100


def test_weights_that_lose_too_much_are_not_written(writer, small_run, tmp_path) -> None:
    settings = ExportSettings(dtype="int8", dev_sentences=1)
    writer.float32_translations = small_run.dev_pairs()[0].target
    search = small_run.config.search
    with pytest.raises(ExportError, match=r"at most 0.2 dev BLEU less .* got 0.00 for 100.00"):
        export(small_run, search, tmp_path / "m", settings, quietly)
    assert not (tmp_path / "m").exists()
    accepting = dataclasses.replace(settings, max_bleu_loss=101.0)
    assert export(small_run, search, tmp_path / "m", accepting, quietly).is_dir()


def test_where_bleu_says_nothing_the_translations_must_agree(writer, small_run, tmp_path) -> None:
    """At BLEU 0 nothing can be lost: other translations would pass as lossless."""
    settings = ExportSettings(dtype="int8", dev_sentences=2)
    writer.float32_translations = "abc"
    search = small_run.config.search
    with pytest.raises(ExportError, match=r"agree .* chrF 90 or more, .* got 0.00; nothing was"):
        export(small_run, search, tmp_path / "m", settings, quietly)
    assert not (tmp_path / "m").exists()
    accepting = dataclasses.replace(settings, max_bleu_loss=100.0)
    assert export(small_run, search, tmp_path / "m", accepting, quietly).is_dir()


def test_tokenizer_of_dev_bleu(writer, small_run, tmp_path, monkeypatch) -> None:
    """The tokenizer of the run is used, or else that of the text, with a line."""
    config = small_run.config
    chosen = dataclasses.replace(config.train, bleu_tokenizer="char")
    run = dataclasses.replace(small_run, config=dataclasses.replace(config, train=chosen))
    lines: list[str] = []
    monkeypatch.setattr(Run, "dev_pairs", lambda self: [Pair(1, "Hi.", "你好。")])
    for number, (exported, name) in enumerate(((run, "char"), (small_run, "zh")), start=1):
        export(exported, config.search, tmp_path / "m", ExportSettings(), lines.append)
        card = json.loads((tmp_path / "m" / str(number) / "export.json").read_text())
        assert f"|tok:{name}|" in card["dev"]["signature"]
    notes = [line for line in lines if line.startswith("BLEU tokenizer")]
    assert len(notes) == 1
    assert notes[0].startswith("BLEU tokenizer: zh, chosen by the text")


def test_failed_export_leaves_nothing(writer, small_run, tmp_path, monkeypatch) -> None:
    def fail(self, folder, name, log) -> None:
        (folder / "model").touch()
        raise ExportError("no")

    monkeypatch.setattr(writer, "write", fail)
    with pytest.raises(ExportError, match="no"):
        export(small_run, small_run.config.search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


def test_full_disk(writer, small_run, tmp_path, monkeypatch) -> None:
    # The free space is made up; no disk is filled.
    monkeypatch.setattr(
        system.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})()
    )
    with pytest.raises(system.FileError, match="MB are to be written"):
        export(small_run, small_run.config.search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


def test_sampling_is_refused(small_run, tmp_path) -> None:
    search = dataclasses.replace(small_run.config.search, sample=True)
    with pytest.raises(ExportError, match=r"search\.sample: expected false"):
        export(small_run, search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


def test_a_file_at_the_folder_s_path_is_refused(writer, small_run, tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match="expected a folder"):
        export(small_run, small_run.config.search, tmp_path / "file", QUICK, quietly)


def test_run_without_weights(small_run, tmp_path) -> None:
    run = Run(tmp_path, small_run.config)
    with pytest.raises(RunError, match="no best.weights.h5 yet"):
        export(run, run.config.search, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()


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
        ("version", 0, "version: expected 1 to 9223372036854775807, got 0"),
        ("version", 2**63, "version: expected 1 to 9223372036854775807, got 9223372036854775808"),
        ("dtype", "float16", "dtype: expected float32, bfloat16 or int8 for --format saved_model"),
        (
            "format",
            "onnx",
            "format: expected one of saved_model, ctranslate2, marian-hf, got 'onnx'",
        ),
        ("max_tokens", 1, "max_tokens: expected 2 to 100000, got 1"),
        ("dev_sentences", -1, "dev_sentences: expected 0 to 1000000000, got -1"),
        ("max_bleu_loss", -0.1, "max_bleu_loss: expected 0 to 1000, got -0.1"),
    ],
)
def test_settings_out_of_range(field, value, message) -> None:
    with pytest.raises(ConfigError, match=message):
        ExportSettings(**{field: value})


# Exports a run; receives a signal while the weights are written, or before the last step.
ENDED = """
import os, signal, sys, threading, time
from pathlib import Path

from keras_transformer.cli.main import import_tensorflow
import_tensorflow()
from keras_transformer import export, system

name, when, run, folder = sys.argv[1:]
number = signal.Signals[name]

def at_the_end(written):
    assert (written / "export.json").is_file()
    os.kill(os.getpid(), number)
    time.sleep(60)

def while_writing():
    while not list(Path(folder).glob(".*.partial/variables")):
        time.sleep(0.001)
    os.kill(os.getpid(), number)

if when == "end":
    system.sync = at_the_end
else:
    threading.Thread(target=while_writing, daemon=True).start()
sys.exit(export.main(["--run", run, "--to", folder, "--dev_sentences", "0"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "when", "status"),
    [("SIGKILL", "writing", -9), ("SIGKILL", "end", -9), ("SIGTERM", "writing", 143)],
)
def test_a_stopped_or_killed_export_leaves_no_version(
    writer, small_run, tmp_path, name, when, status
) -> None:
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
        assert left == [".1.partial"]  # no version for a server
    assert export(small_run, small_run.config.search, folder, QUICK, quietly) == folder / "1"
    assert [path.name for path in folder.iterdir()] == ["1"]
