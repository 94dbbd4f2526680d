"""Parallel text: where it comes from, and what is left out of it.

A line is what ``wc -l`` counts: only a line feed ends one. A last line without it counts
too.
"""

from __future__ import annotations

import gzip
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.config import DataConfig
from keras_transformer.data import phrasebook
from keras_transformer.data.deduplication import Seen
from keras_transformer.errors import UserError

# Line numbers that a report names for each reason.
_EXAMPLES = 5

CHUNK = 10_000  # pairs that are read at once, at most

_BUILTIN_LANGUAGES = {"en", "zh"}

FEW_COLUMNS = "with fewer than two columns"


class DataError(UserError):
    """Parallel text that cannot be used; the message names the file, and the line if any."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    line: int
    """Where it stands in its corpus; the first is 1."""
    source: str
    """The sentence that is read."""
    target: str
    """The sentence that is written."""
    problem: str = ""
    """Why it is no pair at all, found while reading; ``clean`` drops and reports it."""


def read_pairs(spec: str, source: str, target: str, split: str = "train") -> Iterator[Pair]:
    """Stream the pairs of a corpus, as they are.

    Args:
        spec: A prefix (``DIR/train`` stands for ``DIR/train.SOURCE`` and
            ``DIR/train.TARGET``, or both with ``.gz``), a ``.tsv`` or ``.tsv.gz`` file (its
            first two columns), ``tfds:NAME/CONFIG[:SPLIT]`` or ``builtin:phrasebook[:SPLIT]``.
        source: Language that is read: the suffix of a file, the code in a TFDS set.
        target: Language that is written.
        split: Split of a ``tfds:`` or ``builtin:`` corpus that names none; ``dev`` also
            finds a TFDS split named validation.

    Returns:
        Pairs with their line numbers. A TSV line with one column is a pair with a
        ``problem``.

    Raises:
        DataError: While streaming, before the first pair where possible: files missing,
            unreadable, empty, not UTF-8, or of different length; unknown corpora, splits
            or languages.
    """
    if spec.startswith("tfds:"):
        # Imported here, as TensorFlow takes seconds and plain files do not need it.
        from keras_transformer.data import tfds

        pairs = tfds.read(spec.removeprefix("tfds:"), source, target, split)
        stream: Iterator[Pair] = (Pair(line, *texts) for line, texts in enumerate(pairs, start=1))
    elif spec.startswith("builtin:"):
        stream = _builtin_pairs(spec, source, target, split)
    elif spec.endswith((".tsv", ".tsv.gz")):
        stream = _tsv_pairs(Path(spec).expanduser())
    else:
        stream = _prefix_pairs(spec, source, target)
    first = next(stream, None)
    if first is None:
        raise DataError(f"{spec}: expected pairs of sentences, got an empty corpus")
    yield from chain((first,), stream)


def read_lines(path: Path | str) -> Iterator[str]:
    """Stream the lines of a text file.

    A byte-order mark and carriage returns at line ends are dropped.

    Args:
        path: UTF-8 text, gzip-compressed where the name ends in ``.gz``.

    Raises:
        DataError: Not there, unreadable, or not UTF-8 (with the line).
    """
    path = Path(path)
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                text = raw.decode("utf-8")
                if number == 1:
                    text = text.removeprefix("\ufeff")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: expected UTF-8 text, got byte 0x{error.object[error.start]:02x} "
            f"at byte {error.start + 1} of the line"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        place = f" after line {number}" if number else ""
        raise DataError(f"{path}: cannot be read{place} ({reason})") from error


def _prefix_pairs(prefix: str, source: str, target: str) -> Iterator[Pair]:
    if source == target:
        raise DataError(
            f"{prefix}: expected two different suffixes as data.source and data.target, "
            f"got {source!r} twice"
        )
    paths = [_side(prefix, language) for language in (source, target)]
    sides = [read_lines(path) for path in paths]
    for number, texts in enumerate(zip_longest(*sides), start=1):
        if None in texts:
            lines = [
                number - (text is None) + sum(1 for _ in side)
                for text, side in zip(texts, sides, strict=True)
            ]
            raise DataError(
                f"{paths[0]} has {lines[0]} lines and {paths[1]} has {lines[1]}: "
                "expected the same number, line by line translations of each other"
            )
        yield Pair(number, *texts)


def _side(prefix: str, language: str) -> Path:
    """The file of one language."""
    tried = [Path(f"{prefix}.{language}{gz}").expanduser() for gz in ("", ".gz")]
    for path in tried:
        if path.is_file():
            return path
    message = f"{prefix}: expected {tried[0]} or {tried[1]}, found neither"
    folder = tried[0].parent
    if not folder.is_dir():
        raise DataError(f"{message} ({folder} is no folder)")
    stem = Path(prefix).name
    there = sorted(path.name for path in folder.iterdir() if path.name.startswith(stem))
    if there:
        message += f"; {folder} has {', '.join(there[:8])}{', ...' if there[8:] else ''}"
    raise DataError(message)


def _tsv_pairs(path: Path) -> Iterator[Pair]:
    if not path.is_file():
        raise DataError(f"{path}: expected a file of tab-separated columns, found none")
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            # A blank line is reported as blank.
            yield Pair(number, line, "", FEW_COLUMNS if line.strip() else "")
        else:
            yield Pair(number, columns[0], columns[1])


def _builtin_pairs(spec: str, source: str, target: str, split: str) -> Iterator[Pair]:
    _, name, *rest = spec.split(":")
    split = rest[0] if rest else split
    if name != "phrasebook" or len(rest) > 1:
        raise DataError(f"{spec}: expected builtin:phrasebook or builtin:phrasebook:SPLIT")
    if split not in phrasebook.SPLITS:
        raise DataError(f"{spec}: expected a split {', '.join(phrasebook.SPLITS)}, got {split!r}")
    if {source, target} != _BUILTIN_LANGUAGES:
        raise DataError(
            f"{spec}: expected data.source and data.target en and zh, or zh and en, "
            f"got {source!r} and {target!r}"
        )
    for number, (english, chinese) in enumerate(phrasebook.pairs(split), start=1):
        texts = (english, chinese) if source == "en" else (chinese, english)
        yield Pair(number, *texts)


@dataclass
class CleaningReport:
    """What ``clean`` read, kept and left out. It fills as the pairs stream by."""

    read: int = 0
    """Pairs that came in."""
    kept: int = 0
    """Pairs that went on."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Pairs left out, for each reason."""
    noted: dict[str, int] = field(default_factory=dict)
    """Pairs kept although something is odd about them, for each oddity."""
    examples: dict[str, list[int]] = field(default_factory=dict)
    """Line numbers of the first few pairs, for each reason and oddity."""

    def count(self, reason: str, line: int, drop: bool) -> None:
        """Note one pair under ``reason``."""
        counts = self.dropped if drop else self.noted
        counts[reason] = counts.get(reason, 0) + 1
        first = self.examples.setdefault(reason, [])
        if len(first) < _EXAMPLES:
            first.append(line)

    def take_in(self, later: CleaningReport) -> None:
        """Add what a later step dropped, for reasons of its own, of what was kept here."""
        self.kept -= sum(later.dropped.values())
        self.dropped |= later.dropped
        self.examples |= later.examples

    def lines(self) -> list[str]:
        """For people: the sum, then a line for each reason, as in
        ``dropped 2 blank on one side (lines 7, 12)``."""
        report = [f"read {self.read} pairs, kept {self.kept}"]
        for verb, counts in (("dropped", self.dropped), ("kept", self.noted)):
            for reason, number in counts.items():
                first = self.examples[reason]
                lines = ", ".join(map(str, first)) + (", ..." if number > len(first) else "")
                word = "line" if number == 1 else "lines"
                report.append(f"{verb} {number} {reason} ({word} {lines})")
        return report

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "noted": dict(self.noted),
            "first_lines": {reason: list(lines) for reason, lines in self.examples.items()},
        }


def clean(pairs: Iterable[Pair], config: DataConfig, report: CleaningReport) -> Iterator[Pair]:
    """Drop pairs that teach nothing, and report what is odd about the others.

    Blank sides and lines without two columns are always dropped, repeated pairs with
    ``config.drop_duplicates``, pairs of equal sides with ``config.drop_identical``; each
    is counted either way. Control characters and line separators inside a text are
    reported and become spaces, so that a text stays one line wherever it is written.

    Args:
        pairs: The corpus.
        config: ``drop_duplicates`` and ``drop_identical`` are used.
        report: Filled while the pairs stream by.
    """
    seen = Seen()  # of hashes, as the texts of a large corpus would not fit in memory
    for chunk in chunks(pairs):
        trimmed = [Pair(line, _one_line(s), _one_line(t), p) for line, s, t, p in chunk]
        keys = [hash((pair.source, pair.target)) for pair in trimmed]
        known = seen.add(np.array(keys, np.int64)).tolist()
        for pair, raw, again in zip(trimmed, chunk, known, strict=True):
            if _kept(pair, raw, again, config, report):
                yield pair


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """The pairs by the thousands."""
    stream = iter(pairs)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def _kept(pair: Pair, raw: Pair, again: bool, config: DataConfig, report: CleaningReport) -> bool:
    """Whether a trimmed pair goes on; the report counts it, and what is odd about it."""
    report.read += 1
    line, source, target, problem = pair
    blank = problem or _blank(source, target)
    if blank:
        report.count(blank, line, drop=True)
        return False
    if again:
        report.count("seen before", line, drop=config.drop_duplicates)
        if config.drop_duplicates:
            return False
    if source == target:
        report.count("with identical sides", line, drop=config.drop_identical)
        if config.drop_identical:
            return False
    if (source, target) != (raw.source.strip(), raw.target.strip()):
        report.count("with control characters inside", line, drop=False)
    report.kept += 1
    return True


def _blank(source: str, target: str) -> str:
    """Which sides have nothing to read; "" where both have something."""
    sides = [_readable(source), _readable(target)]
    if all(sides):
        return ""
    return "blank on one side" if any(sides) else "blank on both sides"


def _readable(text: str) -> bool:
    # What Python can print has no invisible character, and its edges are trimmed.
    return bool(text) and (text.isprintable() or any(map(_visible, text)))


def _visible(character: str) -> bool:
    # Cf: zero-width and direction marks.
    return not character.isspace() and unicodedata.category(character) != "Cf"


def _one_line(text: str) -> str:
    """The text with control characters and separators as spaces, edges trimmed."""
    if not text.isprintable():  # false for other spaces too, which stay
        text = "".join(" " if _separates(character) else character for character in text)
    return text.strip()


def _separates(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Zl", "Zp")


class Overlap:
    """Which held-out sources are in the training text too, found while that streams by.

    Args:
        held_out: Held-out pairs; their sources are kept in memory.
    """

    def __init__(self, held_out: Iterable[Pair]) -> None:
        self._sources = [pair.source.strip() for pair in held_out]
        self._wanted = set(self._sources)
        self._found: set[str] = set()

    def watch(self, train: Iterable[Pair]) -> Iterator[Pair]:
        """Pass training pairs on."""
        for pair in train:
            if (text := pair.source.strip()) in self._wanted:
                self._found.add(text)
            yield pair

    @property
    def count(self) -> int:
        """Held-out pairs whose source came by."""
        return sum(text in self._found for text in self._sources)
