"""From text files to scores through the entry points, and common mistakes."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from keras_transformer import train
from keras_transformer.run import Run

ROOT = Path(__file__).parents[1]

WORDS = {
    "the": "der",
    "dog": "Hund",
    "man": "Mann",
    "sees": "sieht",
    "hears": "hört",
    "old": "alte",
    "small": "kleine",
    "and": "und",
}
SMALL = [
    "--model.encoder_layers=1",
    "--model.decoder_layers=1",
    "--model.d_model=16",
    "--model.heads=2",
    "--model.d_ff=32",
    "--train.batch_tokens=200",
    "--train.warmup_steps=20",
    "--train.checkpoint_every=2",
    "--train.average=2",
    "--train.log_every=2",
    "--train.dev_sentences=4",
]


def pairs(count: int) -> tuple[list[str], list[str]]:
    """English sentences of four to seven words, and German ones word by word."""
    words = list(WORDS)
    sources = [
        " ".join(words[(n * n + 3 * k + n * k) % len(words)] for k in range(4 + n % 4)) + "."
        for n in range(count)
    ]
    targets = [" ".join(WORDS[word] for word in line.rstrip(".").split()) + "." for line in sources]
    return sources, targets


def lines_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def write(prefix: Path, sources: list[str], targets: list[str]) -> None:
    for language, lines in (("en", sources), ("de", targets)):
        prefix.with_name(f"{prefix.name}.{language}").write_text(lines_of(lines), encoding="utf-8")


@dataclass
class Done:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an entry point in this process: ``command("translate", words, stdin)``."""

    def call(name: str, words: list[str], stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        status = importlib.import_module(f"keras_transformer.{name}").main(words)
        return Done(status, *capfd.readouterr())

    return call


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write(folder / "train", *pairs(120))
    write(folder / "val", *pairs(8))
    return folder


def files(folder: Path) -> list[str]:
    prefixes = ["--data.train", str(folder / "train"), "--data.dev", str(folder / "val")]
    return [*prefixes, "--data.source", "en", "--data.target", "de"]


@pytest.fixture(scope="session")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps, with a larger vocabulary than the text allows."""
    run = tmp_path_factory.mktemp("runs with a space") / "en-de"
    words = ["--run", str(run), *files(corpus), *SMALL, "--train.max_steps", "6"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = train.main(words)
    assert status == 0, err.getvalue()
    assert out.getvalue() == ""
    lines = err.getvalue().splitlines()
    assert "tokenizer: learning a vocabulary of 10000 from" in lines[0]
    assert any(line.startswith("step 6/6  loss ") for line in lines)
    assert lines[-1].startswith("done: 6 steps in ")
    return run


# From text to scores


def test_training_leaves_a_run(trained: Path) -> None:
    steps = [json.loads(line)["step"] for line in (trained / "metrics.jsonl").open()]
    assert steps == [2, 4, 6, 6]
    size = Run.open(trained).config.model.source_vocabulary_size
    assert 4 + 256 < size < 400
    report = json.loads((trained / "data" / "report.json").read_text())
    assert report["vocabulary"] == {"source": size, "target": size}
    assert report["train"]["kept"] == 120


def test_sentences_are_translated_in_a_fresh_process(trained: Path) -> None:
    """The first one while this program waits for its translation."""
    with subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.translate", "--run", str(trained)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"the old dog sees.\r\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 120)[0]
        first = process.stdout.readline()
        out, err = process.communicate("\n爱 <s> 🙂\nthe man".encode())
    # After six steps of training few translations come to an end.
    assert process.returncode == 0
    assert all(b"without an end" in line for line in err.splitlines())
    lines = (first + out).decode("utf-8").split("\n")
    assert len(lines) == 5
    assert lines[1] == lines[4] == ""
    assert "▁" not in (first + out).decode("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="file systems that refuse such names")
def test_names_that_are_not_utf_8(tmp_path: Path, command: Command) -> None:
    """Latin-1 names of corpus, run, outputs and export; messages and files show them escaped."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    write(folder / "train", *pairs(120))
    write(folder / "val", *pairs(8))
    run, out = folder / "run", folder / os.fsdecode(b"\xe9.de")
    words = ["--run", str(run), *files(folder), *SMALL, "--train.tensorboard", "true"]
    done = command("train", [*words, "--train.max_steps", "4"])
    assert done.status == 0, done.err
    assert "caf\\udce9" in done.err
    done = command("train", ["--resume", "--run", str(run), "--train.max_steps", "6"])
    assert done.status == 0, done.err
    assert "step 6/6" in done.err
    assert Run.open(run).config.data.train == str(folder / "train")
    done = command("translate", ["--run", str(run), str(folder / "val.en"), "--output", str(out)])
    assert done.status == 0, done.err
    assert out.read_bytes().count(b"\n") == 8
    done = command("evaluate", ["--run", str(run), "--data", str(folder / "val"), "--json"])
    assert json.loads(done.out)["sentences"] == 8, done.err
    done = command("translate", ["--run", str(run), str(folder / "none")])
    assert_refused(done, "translate", "caf\\udce9/none: cannot be read")
    done = command("export", ["--run", str(run), "--to", str(folder / "model")])
    assert done.status == 0, done.err
    assert done.out.endswith("caf\\udce9/model/1\n")
    assert (folder / "model" / "1" / "saved_model.pb").is_file()


def test_a_file_is_translated_and_evaluated(
    trained: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out.de"
    words = ["--run", str(trained), "--search.beam", "2"]
    held_out = ["--source", str(corpus / "val.en"), "--reference", str(corpus / "val.de")]
    done = command("evaluate", [*words, *held_out, "--json", "--output", str(out)])
    assert (done.status, done.err) == (0, "")
    result = json.loads(done.out)
    assert result["sentences"] == 8
    assert 0 <= result["bleu"] <= 100
    assert "case:mixed" in result["bleu_signature"]
    assert result["seconds"] > 0

    done = command("translate", [*words, str(corpus / "val.en")])
    assert done.status == 0
    assert all("without an end" in line for line in done.err.splitlines())
    assert done.out == out.read_text(encoding="utf-8")
    assert done.out.count("\n") == 8

    again = command("translate", [*words, str(corpus / "val.en"), "--workers", "3"])
    assert again.out == done.out
    half = command("translate", [*words, str(corpus / "val.en"), "--dtype", "bfloat16"])
    assert (half.status, half.out.count("\n")) == (0, 8)
    refused = command("translate", [*words, "--workers", "0"])
    assert (refused.status, refused.out) == (2, "")
    assert "--workers: expected 1 to 1024, got 0" in refused.err

    own = ["--hypotheses", str(out), "--against", str(out), "--target_language", "de"]
    done = command("evaluate", [*own, *held_out[2:], "--json"])
    assert done.status == 0
    assert json.loads(done.out)["bleu"] == pytest.approx(result["bleu"])


def test_given_translations_are_scored(trained: Path, corpus: Path, command: Command) -> None:
    sides = ["--source", str(corpus / "val.en"), "--target", str(corpus / "val.de")]
    done = command("score", ["--run", str(trained), *sides, "--tokens"])
    assert (done.status, done.err) == (0, "")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert len(rows) == 8
    for total, tokens, by_token in rows:
        parts = [float(part.rpartition(":")[2]) for part in by_token.split(" ")]
        assert by_token.split(" ")[-1].startswith("</s>:")
        assert len(parts) == int(tokens)
        assert float(total) == pytest.approx(sum(parts), abs=0.01)
        assert float(total) < 0


def compressed(folder: Path) -> list[str]:
    """Gzip, byte-order mark and carriage returns."""
    for name, count in (("train", 120), ("val", 8)):
        for language, lines in zip(("en", "de"), pairs(count), strict=True):
            text = "\ufeff" + "".join(f"{line}\r\n" for line in lines)
            with gzip.open(folder / f"{name}.{language}.gz", "wb") as file:
                file.write(text.encode())
    return ["--data.train", str(folder / "train"), "--data.dev", str(folder / "val")]


def columns(folder: Path) -> list[str]:
    """A third column, which is ignored."""
    for name, count in (("train", 120), ("val", 8)):
        rows = [f"{source}\t{target}\tx" for source, target in zip(*pairs(count), strict=True)]
        (folder / f"{name}.tsv").write_text(lines_of(rows), encoding="utf-8")
    return ["--data.train", str(folder / "train.tsv"), "--data.dev", str(folder / "val.tsv")]


SEPARATE = "--data.joint false --data.vocabulary_size 300 "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus_in", "options"),
    [
        (
            compressed,
            SEPARATE + "--data.algorithm bpe --model.embeddings decoder --model.norm pre "
            "--model.positions rotary",
        ),
        (
            columns,
            SEPARATE + "--model.embeddings untied --model.norm post --model.positions learned "
            "--model.max_positions 32 --data.max_tokens 32",
        ),
        (columns, "--model.positions alibi --model.norm pre"),
        (columns, "--model.positions none --model.embeddings untied --train.precision bfloat16"),
    ],
)
def test_other_corpora_and_networks(
    corpus_in: Callable[[Path], list[str]],
    options: str,
    tmp_path: Path,
    command: Command,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = tmp_path / "run"
    words = [*corpus_in(tmp_path), "--data.source", "en", "--data.target", "de", *SMALL]
    limits = ["--train.max_steps=2", "--train.dev_sentences=0", "--train.label_smoothing=0"]
    words += [*options.split(), *limits, "--run", str(run)]
    done = command("train", words)
    assert done.status == 0, done.err
    report = json.loads((run / "data" / "report.json").read_text())
    assert report["train"]["kept"] == 120
    assert report["train"]["noted"].keys() <= {"seen before"}
    if SEPARATE in options:
        assert {path.name for path in (run / "tokenizer").iterdir()} == {
            "source.model",
            "target.model",
        }
    # Longer than learned positions reach, and than training sentences may be.
    long = " ".join(["the old dog"] * 30).encode()
    done = command("translate", ["--run", str(run), "--search.beam", "2"], b"the man\n" + long)
    assert done.status == 0
    assert done.out.count("\n") == 2
    assert ("line 2: 151 tokens, cut to 32" in caplog.text) == ("--data.max_tokens 32" in options)


# Mistakes


def assert_refused(done: Done, name: str, *messages: str) -> None:
    """Check for exit status 2 and a short message whose last line gives the reason."""
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err
    lines = done.err.splitlines()
    assert len(lines) <= 4
    assert lines[-1].startswith(f"keras_transformer.{name}: error: ")
    for message in messages:
        assert message in lines[-1]


def broken(folder: Path, fault: str) -> None:
    """A corpus with one fault."""
    sources, targets = pairs(20)
    write(folder / "train", sources, targets[:19] if fault == "counts" else targets)
    write(folder / "val", *pairs(4))
    if fault == "missing":
        (folder / "train.de").unlink()
    elif fault == "encoding":
        data = (folder / "train.en").read_bytes().split(b"\n")
        data[6] = "hört".encode("latin-1")
        (folder / "train.en").write_bytes(b"\n".join(data))
    elif fault == "empty":
        write(folder / "train", [], [])
    elif fault == "blank":
        write(folder / "train", ["", " "], ["x", ""])
    elif fault == "empty dev":
        write(folder / "val", [], [])


@pytest.mark.parametrize(
    ("fault", "messages"),
    [
        ("missing", ("train.de", "found neither")),
        ("counts", ("train.en has 20 lines", "train.de has 19")),
        ("encoding", ("train.en:7: expected UTF-8 text, got byte 0xf6",)),
        ("empty", ("train: expected pairs of sentences, got an empty corpus",)),
        ("blank", ("expected at least one usable pair", "blank on both sides")),
        ("empty dev", ("val: expected pairs of sentences, got an empty corpus",)),
    ],
)
def test_a_bad_corpus_is_refused(
    fault: str, messages: tuple[str, ...], tmp_path: Path, command: Command
) -> None:
    broken(tmp_path, fault)
    before = sorted(tmp_path.rglob("*"))
    done = command("train", ["--run", str(tmp_path / "run"), *files(tmp_path), *SMALL])
    assert_refused(done, "train", *messages)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("--data.vocabulary_size 299", ("data.vocabulary_size: expected 300 to 1000000, got 299",)),
        ("--train.max_step 3", ("unknown option --train.max_step", "--train.max_steps")),
        ("--train.max_steps 0", ("train.max_steps: expected 1 to 1000000000, got 0",)),
        ("--train.seed 99999999999999", ("train.seed: expected 0 to 2147483647",)),
        ("--preset huge", ("preset: expected one of demo, tiny",)),
        ("--config none.yaml", ("there is no file none.yaml",)),
        ("--data.joint false", ("data.joint: expected true for model.embeddings tied",)),
        ("--model.heads 3", ("model.d_model: expected a multiple of model.heads (3)",)),
        (
            "--model.positions learned --model.max_positions 100 --data.max_tokens 101",
            ("model.max_positions: expected at least data.max_tokens (101)", "got 100"),
        ),
        ("--data.dev=", ("data.dev: expected held-out pairs",)),
        ("--data.source fr", ("val.fr", "found neither")),
    ],
)
def test_bad_options_are_refused(
    words: str, messages: tuple[str, ...], corpus: Path, tmp_path: Path, command: Command
) -> None:
    run = ["--run", str(tmp_path / "run")]
    done = command("train", [*run, *files(corpus), *SMALL, *words.split()])
    assert_refused(done, "train", *messages)
    assert os.listdir(tmp_path) == []


def state(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("", ("en-de: exists already; continue it with --resume, or choose another --run",)),
        ("--resume --model.d_ff 64", ("started with other values: model.d_ff: 32, now 64",)),
        ("--resume --preset big", ("model.d_model: 16, now 1024", "train.average: 2, now 20")),
        ("--resume --data.vocabulary_size 500", ("data.vocabulary_size: 10000, now 500",)),
        ("--resume --train.seed 2", ("train.seed: 1, now 2",)),
    ],
)
def test_a_run_is_neither_overwritten_nor_changed(
    words: str, messages: tuple[str, ...], trained: Path, corpus: Path, command: Command
) -> None:
    before = state(trained)
    given = words.split() or files(corpus)
    done = command("train", ["--run", str(trained), *given])
    assert_refused(done, "train", *messages)
    assert state(trained) == before


def test_a_folder_without_a_run_is_named(corpus: Path, tmp_path: Path, command: Command) -> None:
    sides = ["--source", str(corpus / "val.en"), "--target", str(corpus / "val.de")]
    reference = ["--source", str(corpus / "val.en"), "--reference", str(corpus / "val.de")]
    missing = str(tmp_path / "none")
    calls: list[tuple[str, list[str]]] = [
        ("train", ["--resume"]),
        ("translate", []),
        ("score", sides),
        ("evaluate", reference),
    ]
    for name, words in calls:
        done = command(name, ["--run", missing, *words])
        assert_refused(done, name, "none: expected a run folder with config.yaml, found none")
    assert os.listdir(tmp_path) == []


def test_a_run_without_weights_says_when_they_come(
    trained: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    for name in ("config.yaml", "tokenizer"):
        (tmp_path / name).symlink_to(trained / name)
    done = command("translate", ["--run", str(tmp_path), str(corpus / "val.en")])
    assert_refused(done, "translate", "no best.weights.h5 yet; it comes with the first checkpoint")


def test_bad_input_to_a_run_is_refused(
    trained: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    run = ["--run", str(trained)]
    short = tmp_path / "short.de"
    short.write_text("eins\n")
    source = ["--source", str(corpus / "val.en")]
    done = command("score", [*run, *source, "--target", str(short)])
    assert_refused(done, "score", "--source has 8 lines, --target has 1")
    done = command("evaluate", [*run, *source, "--reference", str(short)])
    assert_refused(done, "evaluate", "val.en has 8 lines", "short.de has 1")
    out = ["--output", str(tmp_path / "out.de")]
    done = command("translate", [*run, *out, str(tmp_path / "none.en")])
    assert_refused(done, "translate", "none.en: cannot be read (No such file or directory)")
    done = command("translate", [*run, *out], "good\nh\xf6rt\n".encode("latin-1"))
    assert_refused(done, "translate", "standard input:2: expected UTF-8")
    done = command("translate", [*run, "--search.beam", "0", str(corpus / "val.en")])
    assert_refused(done, "translate", "search.beam: expected 1 to 1000, got 0")
    assert os.listdir(tmp_path) == ["short.de"]
