"""Evaluation set: source sentences and their references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.config import DataConfig
from keras_transformer.data.cleaning import CleaningReport, blank_sides, clean, has_visible_text
from keras_transformer.data.lines import read_lines
from keras_transformer.data.pairs import read_pairs
from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.metrics import group_references


@dataclass(frozen=True)
class EvaluationSet:
    """Source sentences and their references, without pairs that have a blank side.

    Attributes:
        sources: Sentences to translate; None if the translations are given. Of files, all
            lines: their translations can be saved line by line, although not all are scored.
        references: Sets of references of the scored sentences, as for ``metrics.evaluate``.
        positions: For each valid number of translations, the positions of the scored ones.
        report: The dropped pairs.
    """

    sources: list[str] | None
    references: Sequence[Sequence[str | None]]
    positions: dict[int, Sequence[int]]
    report: CleaningReport

    @classmethod
    def from_files(cls, source: Path | None, references: Sequence[Path]) -> EvaluationSet:
        """Read files in which line n belongs to the same sentence.

        Args:
            source: File of sentences; None if the translations are given.
            references: Files of references, one or more.

        Raises:
            EvaluationError: The files differ in their number of lines, or no pair is left.
            DataError: A file cannot be read.
        """
        streams = [list(read_lines(path)) for path in references]
        sources = list(read_lines(source)) if source is not None else None
        expected = len(streams[0]) if sources is None else len(sources)
        named = source if source is not None else references[0]
        for path, lines in zip(references, streams, strict=True):
            if len(lines) != expected:
                raise EvaluationError(
                    f"{named} has {expected} lines, {path} has {len(lines)}: "
                    "expected a reference for each sentence"
                )
        report = CleaningReport(read=expected)
        scored = [
            index
            for index, texts in enumerate(zip(*streams, strict=True))
            if _is_scored(sources[index] if sources is not None else None, texts, index, report)
        ]
        _check_any(scored, str(named), report)
        kept = [
            [stream[index] if has_visible_text(stream[index]) else None for index in scored]
            for stream in streams
        ]
        return cls(sources, kept, {expected: scored}, report)

    @classmethod
    def from_corpus(cls, spec: str, source: str, target: str) -> EvaluationSet:
        """Read a corpus; a repeated sentence is taken once, with all its references.

        Args:
            spec: As ``data.train``; for ``builtin:`` and ``tfds:`` the default is the test
                split.
            source: Language code of the sentences.
            target: Language code of the references.

        Raises:
            DataError: The corpus cannot be read.
            EvaluationError: No pair is left.
        """
        report = CleaningReport()
        pairs = list(clean(read_pairs(spec, source, target, "test"), DataConfig(), report))
        _check_any(pairs, spec, report)
        sources, references = group_references((pair.source, pair.target) for pair in pairs)
        first: dict[str, int] = {}
        for pair in pairs:
            first.setdefault(pair.source, pair.line - 1)
        # Given translations have a line for each row of the corpus or for each sentence of it.
        positions = {report.read: list(first.values()), len(sources): range(len(sources))}
        return cls(sources, references, positions, report)

    def select(self, translations: Sequence[str]) -> list[str]:
        """Return the translations of the scored sentences.

        Raises:
            EvaluationError: There are more or fewer translations than sentences.
        """
        positions = self.positions.get(len(translations))
        if positions is None:
            fewest, most = min(self.positions), max(self.positions)
            distinct = f", with {fewest} different sentences" if fewest < most else ""
            raise EvaluationError(
                f"the translations have {len(translations)} lines, the reference has "
                f"{most}{distinct}"
            )
        return [translations[index] for index in positions]


def _is_scored(
    source: str | None, references: Sequence[str], index: int, report: CleaningReport
) -> bool:
    """Return whether a sentence is scored, and count its blank texts in the report."""
    visible = [text for text in references if has_visible_text(text)]
    if source is None:
        blank = "" if visible else "with a blank reference"
    else:
        blank = blank_sides(source, visible[0] if visible else "")
    if blank:
        report.count(blank, index + 1, drop=True)
        return False
    if len(visible) < len(references):
        report.count("blank beside another reference", index + 1, drop=True)
    report.kept += 1
    return True


def _check_any(kept: Sequence[object], name: str, report: CleaningReport) -> None:
    if not kept:
        reasons = "; ".join(report.lines())
        raise EvaluationError(f"{name}: there are no sentences to evaluate: {reasons}")
