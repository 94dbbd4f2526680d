"""Exit status, messages, input and output of every entry point."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from keras_transformer.cli import main as cli_main
from keras_transformer.cli.options import UsageError
from keras_transformer.errors import UserError

ENTRY_POINTS = ("train", "translate", "evaluate", "score")


def status(error: BaseException | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    @cli_main.run_main("train")
    def main(argv: Sequence[str]) -> None:
        if error is not None:
            raise error

    return main([]), capsys.readouterr().err


def test_exit_status_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(None, capsys) == (0, "")
    assert status(UserError("bad x"), capsys) == (2, "keras_transformer.train: error: bad x\n")
    assert status(KeyboardInterrupt(), capsys) == (130, "interrupted\n")
    missing = FileNotFoundError(2, "No such file or directory", "text/a.en")
    assert status(missing, capsys) == (
        2,
        "keras_transformer.train: error: text/a.en: No such file or directory\n",
    )
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a write has no file name
    assert status(full, capsys) == (
        2,
        "keras_transformer.train: error: No space left on device\n",
    )


def test_sigterm_ends_as_an_exit_does(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    cleaned = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)

    with pytest.raises(SystemExit) as ended, cli_main.ended_by_sigterm():
        work()
    assert ended.value.code == 143
    assert cleaned == [True]
    assert capsys.readouterr().err == "terminated\n"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_defect_keeps_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="defect"):
        status(ValueError("a defect"), capsys)
    with pytest.raises(OSError, match="disk"):
        status(OSError("disk"), capsys)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_mistakes_end_with_status_2_before_anything_is_loaded(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"keras_transformer.{name}")

    assert module.main(["--bogus", "1"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"keras_transformer.{name}: error: unknown option --bogus")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("train", "--data.train text/train --data.dev text/val", "--run DIR is missing"),
        ("translate", "", "--run DIR is missing"),
        ("score", "--source a", "--target FILE is missing"),
        ("evaluate", "", "expected --run DIR or --hypotheses FILE"),
        ("evaluate", "--run r --hypotheses h --reference f", "one of the two"),
        ("evaluate", "--run r --source a", "--reference FILE is missing"),
        ("evaluate", "--run r --reference a", "--source FILE is missing"),
        ("evaluate", "--run r --data d --reference a", "not both"),
        ("evaluate", "--run r --data d --moses --tokenize zh", "not both"),
        ("evaluate", "--hypotheses h --reference a", "--target_language CODE is missing"),
        ("evaluate", "--hypotheses h --reference a --output o", "are saved already"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(
    name: str, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"keras_transformer.{name}")

    assert module.main(words.split()) == 2
    assert message in capsys.readouterr().err


def test_output_file_appears_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with cli_main.output(str(path)) as stream:
        print("我爱你。", file=stream)
        assert not path.exists()
    assert path.read_bytes() == "我爱你。\n".encode()

    def interrupted() -> None:
        with cli_main.output(str(path)) as stream:
            print("half", file=stream)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == "我爱你。\n".encode()
    assert os.listdir(tmp_path) == ["out.txt"]


def test_output_goes_through_links_and_into_devices(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    with cli_main.output(str(tmp_path / "link")) as stream:
        print("one", file=stream)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "one\n"
    before = os.stat(os.devnull)
    with cli_main.output(os.devnull) as stream:
        print("one", file=stream)
    assert os.stat(os.devnull).st_ino == before.st_ino  # not replaced by a file


@pytest.mark.parametrize(
    ("name", "found"), [("", "found a folder"), ("none/out", "found no such folder")]
)
def test_output_that_cannot_be_written_is_refused(tmp_path: Path, name: str, found: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(UsageError, match=found) as caught, cli_main.output(path):
        pass
    assert str(caught.value).startswith(f"--output {path}: expected a file to write, ")
    assert os.listdir(tmp_path) == []


def stdin(data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return list(cli_main.standard_input())


def test_standard_input_is_split_at_line_feeds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of form feed, no-break space and line separator none ends a line; a blank line is one."""
    text = "\ufeffone\r\n\na\x0cb\u00a0c\u2028d\nlast"

    assert stdin(text.encode(), monkeypatch) == ["one", "", "a\x0cb\u00a0c\u2028d", "last"]
    assert stdin(b"", monkeypatch) == []


def test_standard_input_that_is_not_utf_8_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="standard input, line 2: expected UTF-8"):
        stdin(b"good\nb\xe4d\n", monkeypatch)


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = (
        "from keras_transformer.cli.main import run_main\n"
        "@run_main('train')\n"
        "def main(argv):\n"
        "    for _ in range(100_000): print('a line of text')\n"
        "raise SystemExit(main([]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        message = process.stderr.read()

    assert process.returncode == 141
    assert message == b""


def test_tensorflow_starts_without_its_greetings() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys; from keras_transformer.cli import main; main.import_tensorflow();"
            "os.write(2, b'after'); print('tensorflow' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert done.stdout == "True\n"
    assert done.stderr == "after"


def test_what_is_no_greeting_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with cli_main._without_greetings():
        os.write(2, b"I0000 00:00:1 port.cc:153] hello\nE0000 00:00:2 a real error\n")

    assert capfd.readouterr().err == "E0000 00:00:2 a real error\n"
