"""Standard input, output files and progress bars."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from keras_transformer.cli import streams
from keras_transformer.cli.messages import UsageError


def test_an_output_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with streams.output(str(path)) as stream:
        print("我爱你。", file=stream)
        assert not path.exists()
    assert path.read_bytes() == "我爱你。\n".encode()

    def interrupted() -> None:
        with streams.output(str(path)) as stream:
            print("half", file=stream)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == "我爱你。\n".encode()
    assert os.listdir(tmp_path) == ["out.txt"]


def test_output_follows_links_and_writes_to_devices(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    with streams.output(str(tmp_path / "link")) as stream:
        print("one", file=stream)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "one\n"
    before = os.stat(os.devnull)
    with streams.output(os.devnull) as stream:
        print("one", file=stream)
    assert os.stat(os.devnull).st_ino == before.st_ino  # not replaced by a file


@pytest.mark.parametrize(
    ("name", "found"), [("", "found a folder"), ("none/out", "found no such folder")]
)
def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path, name: str, found: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(UsageError, match=found) as caught, streams.output(path):
        pass
    assert str(caught.value).startswith(f"--output {path}: expected a file to write, ")
    assert os.listdir(tmp_path) == []


def test_a_closed_standard_output_is_not_reported_as_a_file_error(tmp_path: Path) -> None:
    def write() -> None:
        with streams.output_file(str(tmp_path / "a.npz"), "--attention") as place:
            place.touch()
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        write()
    assert os.listdir(tmp_path) == []


def stdin(data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return list(streams.standard_input())


def test_standard_input_is_split_at_line_feeds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Form feed, no-break space and line separator end no line; a blank line counts."""
    text = "\ufeffone\r\n\na\x0cb\u00a0c\u2028d\nlast"

    assert stdin(text.encode(), monkeypatch) == ["one", "", "a\x0cb\u00a0c\u2028d", "last"]
    assert stdin(b"", monkeypatch) == []


def test_standard_input_that_is_not_utf_8_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="standard input, line 2: expected UTF-8"):
        stdin(b"good\nb\xe4d\n", monkeypatch)


def test_progress_is_shown_on_a_terminal_without_other_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with streams.progress(3) as report:
        assert report is None  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with streams.progress(3) as report:
        assert report is not None
        report(3)
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with streams.progress(3) as report:
        assert report is None  # the bar would mix with the output
    with streams.progress(10, done=4, to_file=True) as report:
        assert report is not None
        report(2)
    assert "6/10" in capsys.readouterr().err
