from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from keras_transformer.data.errors import DataError
from keras_transformer.data.lines import read_lines


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
