"""Input and output files and progress bars."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

from keras_transformer.cli import streams
from keras_transformer.cli.messages import UsageError
from keras_transformer.errors import UserError
from keras_transformer.system import FileError


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


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    """By its descriptor, as of >(gzip > x), through a link, and by the name of a FIFO."""
    reading, writing = os.pipe()
    (tmp_path / "link").symlink_to(f"/dev/fd/{writing}")
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    for path, end in (
        (f"/dev/fd/{writing}", reading),
        (str(tmp_path / "link"), reading),
        (str(tmp_path / "fifo"), fifo),
    ):
        with streams.output(path) as stream:
            print("爱", file=stream, flush=True)
            assert os.read(end, 100) == "爱\n".encode()
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link"]
    for handle in (reading, writing, fifo):
        os.close(handle)


def test_a_full_device_is_named() -> None:
    with (
        pytest.raises(FileError, match="^--output /dev/full: cannot be written: No space left"),
        streams.output("/dev/full") as stream,
    ):
        stream.write("text")


def test_a_file_of_the_shell_is_written_where_it_stands(tmp_path: Path) -> None:
    """As of --output /dev/stdout >> log, and of (echo one; ... --output /dev/stdout) > log."""
    log = tmp_path / "log"
    log.write_text("before\n")
    for flags, start in ((os.O_APPEND, "before\n"), (os.O_TRUNC, "")):
        handle = os.open(log, os.O_WRONLY | flags)
        os.write(handle, b"one\n")
        with streams.output(f"/dev/fd/{handle}") as stream:
            print("two", file=stream)
        os.write(handle, b"three\n")
        os.close(handle)
        assert log.read_text() == f"{start}one\ntwo\nthree\n"


def test_a_zip_file_into_a_descriptor_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before")
    handle = os.open(file, os.O_WRONLY | os.O_APPEND)
    with (
        streams.output_file(f"/dev/fd/{handle}", "--attention") as stream,
        zipfile.ZipFile(stream, "w") as archive,
    ):
        archive.writestr("name", "text")
    os.close(handle)
    assert file.read_bytes().startswith(b"before")
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.read("name") == b"text"


def test_a_descriptor_that_cannot_be_written_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    for path in (f"/dev/fd/{reading}", f"/dev/fd/{writing}"):
        with pytest.raises(UsageError, match="closed or only read"), streams.output(path):
            pass
    os.close(reading)
    monkeypatch.setattr(sys, "__stdout__", None)  # closed when Python started
    for name in (None, "/dev/stdout"):
        with pytest.raises(UserError, match="closed"), streams.output(name):
            pass


def test_two_writers_of_one_output_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    (tmp_path / "link").symlink_to("out")
    with streams.output(path) as stream:
        for name in ("out", "link"):
            with (
                pytest.raises(FileError, match="out: another process is writing it"),
                streams.output(str(tmp_path / name)),
            ):
                pass
        print("whole", file=stream)
    assert Path(path).read_text() == "whole\n"


@pytest.mark.parametrize("other", ["in", "./in", "link", "hard", "/dev/fd/{}"])
def test_an_output_that_is_an_input_is_refused(tmp_path: Path, other: str) -> None:
    path = tmp_path / "in"
    path.touch()
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "hard").hardlink_to(path)
    with path.open("a") as file:
        same = str(tmp_path / other.format(file.fileno()))
        with pytest.raises(UsageError, match=r"^--output .*: this command reads it too"):
            streams.check_outputs({"--output": same}, [tmp_path / "none", path])
        streams.check_outputs({"--output": str(tmp_path / "out")}, [path, None])


def test_one_file_for_two_outputs_is_refused(tmp_path: Path) -> None:
    new = str(tmp_path / "new")
    with pytest.raises(UsageError, match=f"--attention {new}: --output {new} goes there too"):
        streams.check_outputs({"--output": new, "--attention": new}, [])
    reading, writing = os.pipe()
    pipe = f"/dev/fd/{writing}"
    with pytest.raises(UsageError, match="goes there too"):
        streams.check_outputs({"--output": pipe, "--attention": pipe}, [])
    null = {"--output": os.devnull, "--attention": os.devnull}
    streams.check_outputs(null, [os.devnull, f"/dev/fd/{reading}"])
    streams.check_outputs({"--attention": None}, [])
    os.close(reading)
    os.close(writing)


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
        with streams.output_file(str(tmp_path / "a.npz"), "--attention"):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        write()
    assert os.listdir(tmp_path) == []


def test_input_comes_from_standard_input_a_file_or_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeff爱\r\n\n".encode())))
    (tmp_path / "file").write_text("one\n\nlast")
    reading, writing = os.pipe()
    os.write(writing, b"first\n")
    found = {}
    for path in (None, str(tmp_path / "file")):
        with streams.input_lines(path) as lines:
            found[path] = list(lines)
    assert list(found.values()) == [["爱", ""], ["one", "", "last"]]
    with streams.input_lines(f"/dev/fd/{reading}") as lines:
        assert next(iter(lines)) == "first"  # while the pipe stays open
    os.close(reading)
    os.close(writing)


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
