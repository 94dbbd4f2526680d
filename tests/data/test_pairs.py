from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest

from keras_transformer.data import phrasebook
from keras_transformer.data.errors import DataError
from keras_transformer.data.pairs import FEW_COLUMNS, Pair, read_pairs
from keras_transformer.errors import UserError


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def texts(spec: object, source: str = "en", target: str = "de") -> list[tuple[int, str, str]]:
    return [(p.line, p.source, p.target) for p in read_pairs(str(spec), source, target)]


@pytest.mark.parametrize(("first", "second"), itertools.product(["", ".gz"], repeat=2))
def test_prefix(tmp_path: Path, first: str, second: str) -> None:
    write(tmp_path / f"train.v2.en{first}", b"a\tb\n\nc")
    write(tmp_path / f"train.v2.de{second}", b"A\n\nC\n")
    expected = [(1, "a\tb", "A"), (2, "", ""), (3, "c", "C")]
    assert texts(tmp_path / "train.v2") == expected
    assert texts(tmp_path / "train.v2", "de", "en") == [(n, t, s) for n, s, t in expected]


@pytest.mark.parametrize("longer", ["en", "de"])
def test_different_line_counts_name_both(tmp_path: Path, longer: str) -> None:
    for language in ("en", "de"):
        lines = 7 if language == longer else 4
        write(tmp_path / f"t.{language}", b"x\n" * (lines - 1) + b"last, without line feed")
    counts = {"en": 4, "de": 4, longer: 7}
    message = rf"t\.en has {counts['en']} lines and .*t\.de has {counts['de']}"
    with pytest.raises(DataError, match=message):
        texts(tmp_path / "t")


def test_missing_files_name_candidates_and_similar_files(tmp_path: Path) -> None:
    write(tmp_path / "train.en", b"a\n")
    write(tmp_path / "train.fr", b"a\n")
    with pytest.raises(DataError) as caught:
        texts(tmp_path / "train")
    assert str(caught.value) == (
        f"{tmp_path}/train: expected {tmp_path}/train.de or {tmp_path}/train.de.gz, found "
        f"neither; {tmp_path} has train.en, train.fr"
    )
    assert isinstance(caught.value, UserError)
    with pytest.raises(DataError, match="nowhere is not a folder"):
        texts(tmp_path / "nowhere" / "train")
    with pytest.raises(DataError, match="two different suffixes"):
        texts(tmp_path / "train", "en", "en")


def test_a_missing_file_is_refused_before_the_first_pair(tmp_path: Path) -> None:
    write(tmp_path / "train.en", b"a\n")
    with pytest.raises(DataError):
        next(read_pairs(str(tmp_path / "train"), "en", "de"))


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "t.en", b"a\n")
    write(tmp_path / "t.de", b"b\n")
    write(tmp_path / "t.tsv", b"c\td\n")
    assert texts("~/t") == [(1, "a", "b")]
    assert texts("~/t.tsv") == [(1, "c", "d")]


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz"])
def test_tsv(tmp_path: Path, name: str) -> None:
    content = '\ufeffa\tb\tCC-BY\r\n"q" \t\'r\nalone\n\n\tonly target\nx\t\n'
    path = write(tmp_path / name, content.encode())
    pairs = list(read_pairs(str(path), "en", "zh"))
    assert pairs == [
        Pair(1, "a", "b"),
        Pair(2, '"q" ', "'r"),  # quotes are text
        Pair(3, "alone", "", FEW_COLUMNS),
        Pair(4, "", ""),
        Pair(5, "", "only target"),
        Pair(6, "x", ""),
    ]


def test_missing_tsv(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tsv: expected a file"):
        texts(tmp_path / "none.tsv")


@pytest.mark.parametrize("names", [["t.en", "t.de"], ["t.tsv"]])
def test_an_empty_corpus_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        write(tmp_path / name, b"")
    spec = tmp_path / (names[0] if len(names) == 1 else "t")
    with pytest.raises(DataError, match="expected pairs of sentences, got an empty corpus"):
        texts(spec)


@pytest.fixture
def phrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phrasebook of one sentence per split."""
    monkeypatch.setattr(phrasebook, "pairs", lambda split: [(f"{split} me", f"{split}我")])


@pytest.mark.usefixtures("phrases")
def test_builtin_splits_and_directions() -> None:
    assert texts("builtin:phrasebook", "en", "zh") == [(1, "train me", "train我")]
    assert texts("builtin:phrasebook:test", "zh", "en") == [(1, "test我", "test me")]
    pairs = read_pairs("builtin:phrasebook", "en", "zh", split="dev")
    assert [pair.source for pair in pairs] == ["dev me"]


@pytest.mark.parametrize(
    ("spec", "target", "message"),
    [
        ("builtin:novel", "zh", "expected builtin:phrasebook"),
        ("builtin:phrasebook:all", "zh", "expected a split train, dev, test, got 'all'"),
        ("builtin:phrasebook", "de", "expected .* en and zh, or zh and en, got 'en' and 'de'"),
    ],
)
def test_invalid_builtin_specs_are_refused(spec: str, target: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        texts(spec, "en", target)


def test_reading_streams(tmp_path: Path) -> None:
    # The third line is broken; the first two arrive before it is read.
    write(tmp_path / "t.tsv", b"a\tb\nc\td\n\xff\t\n")
    stream = read_pairs(str(tmp_path / "t.tsv"), "en", "de")
    assert [next(stream).source, next(stream).source] == ["a", "c"]
    with pytest.raises(DataError, match=r"t\.tsv:3"):
        next(stream)
