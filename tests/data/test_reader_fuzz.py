"""Corpus files of any content: the right pairs, or an error that names the file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
from pathlib import Path

import pytest
from hypothesis import example
from hypothesis import strategies as st

from keras_transformer.config import DataConfig
from keras_transformer.data.cleaning import CleaningReport, clean, has_visible_text
from keras_transformer.data.lines import LineStream, read_lines
from keras_transformer.data.pairs import FEW_COLUMNS, Pair, read_pairs
from tests.support.fuzzing import attempt, fuzz, sizes

# Bytes of corpora: line ends of any sort, marks, separators inside lines, and no UTF-8 at all.
PARTS = st.sampled_from(
    ["a", "the b", "我", "\t", "\n", "\r\n", "\r", "\n\n", "\ufeff", "\u2028", "\u2029", "\x85",
     "\x0b", "\x0c", "\x1c", "\x00", "\u200b", "\u202e", "\u3000", "\ufffd", "\U000e0001",
     "e\u0301", "#", '"']
).map(str.encode) | st.sampled_from(
    [b"\xff", b"\xed\xa0\x80", b"\xe6\x88", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff\xfea\0\n\0",
     b"x" * 70_000]
)  # fmt: skip
CONTENTS = st.lists(PARTS | st.binary(max_size=4), max_size=12).map(b"".join)
TEXTS = st.lists(
    st.sampled_from(["a", "b", "我", " ", "\r", "\u2028", "\x00", "\x85", "\u200b", "e\u0301"]),
    max_size=6,
).map("".join)


def expected_lines(content: bytes) -> list[str] | None:
    """Return the lines of a text file, or None where it is not UTF-8."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    text = text.removeprefix("\ufeff")
    lines = text.split("\n") if content else []
    if content.endswith(b"\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


@sizes(60)
def test_lines_of_a_file_and_of_a_stream(tmp_path: Path, count: int) -> None:
    plain, zipped = tmp_path / "a.en", tmp_path / "b.en.gz"

    @fuzz(count, content=CONTENTS, chunk=st.integers(1, 9))
    def check(content: bytes, chunk: int) -> None:
        class Slow(io.BytesIO):
            def read1(self, size: int | None = -1) -> bytes:
                return super().read1(chunk if self.tell() < 100 else size)

        plain.write_bytes(content)
        zipped.write_bytes(gzip.compress(content, 1))
        expected = expected_lines(content)
        for name, read in (
            (str(plain), lambda: list(read_lines(plain))),
            (str(zipped), lambda: list(read_lines(zipped))),
            ("pipe", lambda: list(LineStream(Slow(content), "pipe"))),
        ):
            lines, error = attempt(read)
            assert lines == expected
            assert error.startswith(f"{name}:") == (expected is None)


@sizes(60)
def test_damaged_gzip_files(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.en.gz"
    text = "".join(f"line {random.Random(1).random()} {n}\n" for n in range(2_000)).encode()
    packed = gzip.compress(text)
    other = [bz2.compress(text), lzma.compress(text), text, b"", b"\x1f\x8b", packed + packed]

    @fuzz(count, size=st.integers(0, len(packed)), place=st.integers(0, len(packed) - 1),
          put=st.binary(max_size=3), whole=st.none() | st.sampled_from(other))  # fmt: skip
    def check(size: int, place: int, put: bytes, whole: bytes | None) -> None:
        damaged = packed[:place] + put + packed[place + len(put) :]
        path.write_bytes(damaged[:size] if whole is None else whole)
        lines, error = attempt(lambda: list(read_lines(path)))
        if error:
            assert error.startswith(f"{path}")
        elif whole is None:
            assert lines in (text.decode().split("\n")[:-1], [])

    assert list(tmp_path.iterdir()) == [path]


@sizes(60)
def test_two_files(tmp_path: Path, count: int) -> None:
    paths = [tmp_path / "t.en", tmp_path / "t.de"]

    @fuzz(count, contents=st.tuples(CONTENTS, CONTENTS))
    @example(contents=(b"a\nb", b"a\n\xff"))
    @example(contents=(b"a\nb\n\xff", b"a\n"))
    @example(contents=(b"\n", b""))
    def check(contents: tuple[bytes, bytes]) -> None:
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        sides = [expected_lines(content) for content in contents]
        pairs, error = attempt(lambda: list(read_pairs(str(tmp_path / "t"), "en", "de")))
        if sides[0] and sides[1] and len(sides[0]) == len(sides[1]):
            expected = [Pair(n, *texts) for n, texts in enumerate(zip(*sides, strict=True), 1)]
            assert pairs == expected
        else:
            assert error.startswith(str(tmp_path / "t"))
        if None not in sides and len(sides[0]) != len(sides[1]):
            assert f"t.en has {len(sides[0])} lines" in error
            assert f"t.de has {len(sides[1])}:" in error

    assert sorted(tmp_path.iterdir()) == sorted(paths)


@sizes(60)
def test_columns(tmp_path: Path, count: int) -> None:
    path = tmp_path / "t.tsv"

    @fuzz(count, content=CONTENTS)
    def check(content: bytes) -> None:
        path.write_bytes(content)
        lines = expected_lines(content)
        pairs, error = attempt(lambda: list(read_pairs(str(path), "en", "de")))
        if not lines:
            assert error.startswith(str(path))
            return
        assert [pair.line for pair in pairs] == list(range(1, len(lines) + 1))
        for pair, line in zip(pairs, lines, strict=True):
            columns = line.split("\t")
            assert [pair.source, pair.target] == [*columns, ""][:2]
            assert pair.problem == (FEW_COLUMNS if "\t" not in line and line.strip() else "")


@pytest.mark.parametrize("drop", [False, True])
@sizes(50)
def test_cleaned_pairs_are_visible_single_lines(drop: bool, count: int) -> None:
    config = DataConfig(train="x", dev="y", source="en", target="de",
                        drop_duplicates=drop, drop_identical=drop)  # fmt: skip

    @fuzz(count, rows=st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
    def check(rows: list[tuple[str, str]]) -> None:
        report = CleaningReport()
        pairs = [Pair(line, *row) for line, row in enumerate(rows, start=1)]
        cleaned = list(clean(pairs, config, report))
        assert report.read == len(rows)
        assert report.kept == len(cleaned)
        assert report.read == report.kept + sum(report.dropped.values())
        for pair in cleaned:
            for text in (pair.source, pair.target):
                assert text.splitlines() == [text]
                assert text == text.strip()
                assert has_visible_text(text)
        texts = [(pair.source, pair.target) for pair in cleaned]
        if drop:
            assert len(set(texts)) == len(texts)
            assert all(source != target for source, target in texts)
        again = list(clean(cleaned, config, CleaningReport()))
        assert again == cleaned


# Names of corpora: what a recipe may hold, though no shell can give it.
NAMES = st.sampled_from(
    ["", " ", ".", "..", "/", "~", "~no-such-user/t", "a\0b", "a" * 300, "a/" * 2_100,
     "t.tsv", "~x.tsv", "\ud800", "\udcff.tsv", "dir", "dir/", "dir/t", "t.en", "none/t",
     "/dev/null", "/proc/self/mem", "pipe.tsv", "loop.tsv", "loop", "dir.tsv", "dangling.tsv",
     "builtin:", "builtin::", "builtin:phrasebook:", "builtin:phrasebook:a", "builtin:\ud800",
     "gs://a/b", "http://x/y.tsv"]
)  # fmt: skip
LANGUAGES = st.sampled_from(["en", "de", "", "/", "..", "\0", "a" * 300, "\ud800", "../x"])


@sizes(60)
def test_names_of_any_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir.tsv").mkdir()
    (tmp_path / "t.en").write_text("a\n")
    (tmp_path / "t.tsv").write_text("a\tb\n")
    (tmp_path / "dangling.tsv").symlink_to("nowhere")
    (tmp_path / "loop.tsv").symlink_to("loop.tsv")
    (tmp_path / "loop.en").symlink_to("loop.en")
    os.mkfifo(tmp_path / "pipe.tsv")

    @fuzz(count, name=NAMES, source=LANGUAGES, target=LANGUAGES)
    @example(name="~no-such-user/t", source="en", target="de")
    @example(name="~no-such-user/t.tsv", source="en", target="de")
    @example(name="a" * 300, source="en", target="de")
    @example(name="a" * 300 + ".tsv", source="en", target="de")
    @example(name="a\0b", source="en", target="de")
    @example(name="a\0b.tsv", source="en", target="de")
    @example(name="~", source="\0", target="de")
    @example(name="~\ud800.tsv", source="en", target="de")
    @example(name="t\ud800", source="en", target="de")
    def check(name: str, source: str, target: str) -> None:
        pairs, error = attempt(lambda: list(read_pairs(name, source, target)))
        if not error:
            assert (name, pairs) == ("t.tsv", [Pair(1, "a", "b")])
