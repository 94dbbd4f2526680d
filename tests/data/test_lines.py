"""Lines of files, and of pipes as they arrive."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from keras_transformer.data.errors import DataError
from keras_transformer.data.lines import LineStream, read_lines


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_lines_end_at_line_feeds_only(tmp_path: Path, name: str) -> None:
    inside = "a\u2028b\x0bc\x0cd\x85e\u2029f\x1cg\rh"
    path = write(tmp_path / name, f"\ufeffone\r\n\n{inside}\n\ufefflast".encode())
    assert list(read_lines(path)) == ["one", "", inside, "\ufefflast"]


def test_a_file_without_lines(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path / "a.en", b""))) == []
    assert list(read_lines(write(tmp_path / "b.en", b"\n"))) == [""]


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "a.en", b"fine\nau\xdfen\n")
    with pytest.raises(DataError, match=r"a\.en:2: expected UTF-8 text, got byte 0xdf at byte 3"):
        list(read_lines(path))
    path = write(tmp_path / "utf16.en", "hello\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"utf16\.en:1: expected UTF-8"):
        list(read_lines(path))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.en: cannot be read \(No such file"):
        list(read_lines(tmp_path / "none.en"))
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory"):
        list(read_lines(tmp_path))
    broken = write(tmp_path / "a.en.gz", b"line\n" * 100_000)
    broken.write_bytes(broken.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"a\.en\.gz: cannot be read after line \d+"):
        list(read_lines(broken))
    (tmp_path / "b.en.gz").write_bytes(b"plain text")
    with pytest.raises(DataError, match=r"b\.en\.gz: cannot be read .*gzip"):
        list(read_lines(tmp_path / "b.en.gz"))


# Streams


@pytest.fixture
def pipe() -> Iterator[tuple[LineStream, io.FileIO]]:
    """A stream, and the end of its pipe into which another program writes."""
    reading, writing = os.pipe()
    with open(reading, "rb") as file, open(writing, "wb", buffering=0) as program:
        yield LineStream(file, "pipe"), program


def test_a_line_is_there_as_soon_as_it_is_complete(pipe: tuple[LineStream, io.FileIO]) -> None:
    lines, program = pipe
    program.write("\ufeffone\r\n\ntw".encode())
    assert (next(lines), next(lines)) == ("one", "")
    assert not lines.ready()  # the end of "tw" may come much later
    program.write(b"o\nthree\n")
    assert lines.ready()
    assert (next(lines), lines.ready(), next(lines)) == ("two", True, "three")
    assert not lines.ready()
    program.write(b"last")
    program.close()
    assert lines.ready()
    assert list(lines) == ["last"]
    assert not lines.ready()


def test_a_line_longer_than_a_pipe_and_a_character_in_two_parts() -> None:
    class OneByOne(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(1 if self.tell() < 9 else size)

    text = "我爱\n" + "x" * 200_000 + "\nend"
    lines = LineStream(OneByOne(text.encode()), "memory")
    assert "\n".join(lines) == text


def test_a_stream_splits_at_line_feeds_only() -> None:
    inside = "a\u2028b\x0bc\x0cd\x85e\u2029f\x1cg\rh"
    lines = LineStream(io.BytesIO(f"{inside}\n\ufeffx\r\n".encode()), "memory")
    assert list(lines) == [inside, "\ufeffx"]
    assert list(LineStream(io.BytesIO(b""), "memory")) == []


def test_errors_of_a_stream_name_it_and_the_line() -> None:
    lines = LineStream(io.BytesIO(b"good\nb\xe4d\n"), "standard input")
    assert next(lines) == "good"
    with pytest.raises(DataError, match=r"standard input:2: expected UTF-8 .* 0xe4 at byte 2"):
        next(lines)

    class Folder(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise IsADirectoryError(21, "Is a directory")

    with pytest.raises(DataError, match=r"standard input: cannot be read \(Is a directory\)"):
        next(LineStream(Folder(), "standard input"))
