"""Corpus cleaning: filters, a report of what they drop, and the overlap with the dev set."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_transformer.config import DataConfig
from keras_transformer.data.deduplication import Deduplicator
from keras_transformer.data.pairs import Pair, blocks

_MAX_EXAMPLES = 5  # line numbers that a report names for each reason


@dataclass
class CleaningReport:
    """Counts of pairs read, kept and dropped. They grow while the pairs stream by."""

    read: int = 0
    """Pairs read."""
    kept: int = 0
    """Pairs kept."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Dropped pairs by reason."""
    noted: dict[str, int] = field(default_factory=dict)
    """Unusual pairs that were kept, by reason."""
    examples: dict[str, list[int]] = field(default_factory=dict)
    """Line numbers of the first few pairs for each reason."""

    def count(self, reason: str, line: int, drop: bool) -> None:
        """Count one pair under ``reason``."""
        counts = self.dropped if drop else self.noted
        counts[reason] = counts.get(reason, 0) + 1
        lines = self.examples.setdefault(reason, [])
        if len(lines) < _MAX_EXAMPLES:
            lines.append(line)

    def add_dropped(self, later: CleaningReport) -> None:
        """Move the pairs that a later filter dropped from kept to dropped; its reasons are new."""
        self.kept -= sum(later.dropped.values())
        self.dropped |= later.dropped
        self.examples |= later.examples

    def lines(self) -> list[str]:
        """Return the totals and a line for each reason, as in
        ``dropped 2 blank on one side (lines 7, 12)``."""
        total = f"read {self.read} pairs, kept {self.kept}"
        return [total, *self.dropped_lines(), *self._reasons("kept", self.noted)]

    def dropped_lines(self) -> list[str]:
        """Return a line for each reason of dropped pairs."""
        return self._reasons("dropped", self.dropped)

    def _reasons(self, verb: str, counts: dict[str, int]) -> list[str]:
        report = []
        for reason, number in counts.items():
            examples = self.examples[reason]
            lines = ", ".join(map(str, examples)) + (", ..." if number > len(examples) else "")
            word = "line" if number == 1 else "lines"
            report.append(f"{verb} {number} {reason} ({word} {lines})")
        return report

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "noted": dict(self.noted),
            "first_lines": {reason: list(lines) for reason, lines in self.examples.items()},
        }


def clean(pairs: Iterable[Pair], config: DataConfig, report: CleaningReport) -> Iterator[Pair]:
    """Drop pairs that teach nothing, and report unusual ones.

    Pairs with a blank side and lines without two columns are always dropped; repeated pairs
    only with ``config.drop_duplicates``, pairs of equal sides only with
    ``config.drop_identical``. Each is counted, dropped or not. Control characters and line
    separators inside a text are reported and become spaces, so that a text stays one line in
    every file.

    Args:
        pairs: The corpus.
        config: ``drop_duplicates`` and ``drop_identical`` are used.
        report: Filled while the pairs stream by.
    """
    deduplicator = Deduplicator()
    for block in blocks(pairs):
        trimmed = [Pair(line, _one_line(s), _one_line(t), p) for line, s, t, p in block]
        # Hashes, because the texts of a large corpus do not fit in memory.
        keys = [hash((pair.source, pair.target)) for pair in trimmed]
        repeated = deduplicator.add(np.array(keys, np.int64)).tolist()
        for pair, raw, is_repeated in zip(trimmed, block, repeated, strict=True):
            if _keep(pair, raw, is_repeated, config, report):
                yield pair


def _keep(
    pair: Pair, raw: Pair, repeated: bool, config: DataConfig, report: CleaningReport
) -> bool:
    """Return whether a trimmed pair is kept, and count it in the report."""
    report.read += 1
    line, source, target, problem = pair
    blank = problem or blank_sides(source, target)
    if blank:
        report.count(blank, line, drop=True)
        return False
    if repeated:
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


def blank_sides(source: str, target: str) -> str:
    """Return the reason to drop a pair with blank sides; "" if both have visible text."""
    sides = [has_visible_text(source), has_visible_text(target)]
    if all(sides):
        return ""
    return "blank on one side" if any(sides) else "blank on both sides"


def has_visible_text(text: str) -> bool:
    """Return whether a text has characters other than spaces and invisible marks."""
    # A printable text has no invisible characters but spaces, and its edges are trimmed.
    return bool(text) and (text.isprintable() or any(map(_is_visible, text)))


def _is_visible(character: str) -> bool:
    # Cf: zero-width and direction marks.
    return not character.isspace() and unicodedata.category(character) != "Cf"


def _one_line(text: str) -> str:
    """Replace control characters and line separators by spaces, and trim the edges."""
    if not text.isprintable():  # false for unusual spaces too, which stay
        text = "".join(" " if _is_separator(character) else character for character in text)
    return text.strip()


def _is_separator(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Zl", "Zp")


class Overlap:
    """Counter of dev sources that also occur in the training text.

    Args:
        dev_pairs: Held-out pairs; their sources are kept in memory.
    """

    def __init__(self, dev_pairs: Iterable[Pair]) -> None:
        self._sources = [pair.source.strip() for pair in dev_pairs]
        self._distinct = set(self._sources)
        self._found: set[str] = set()

    def watch(self, train: Iterable[Pair]) -> Iterator[Pair]:
        """Pass training pairs on, and record which dev sources are among them."""
        for pair in train:
            if (text := pair.source.strip()) in self._distinct:
                self._found.add(text)
            yield pair

    @property
    def count(self) -> int:
        """Dev pairs whose source is in the training pairs watched so far."""
        return sum(text in self._found for text in self._sources)
