"""Held-out sentences and what is known to be right for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.data.lines import read_lines
from keras_transformer.data.pairs import read_pairs
from keras_transformer.evaluation.metrics import EvaluationError, group


@dataclass(frozen=True)
class HeldOut:
    """Sentences to translate, and references to compare with.

    Attributes:
        sources: The sentences; None where finished translations are evaluated.
        references: Sets of references, as ``metrics.evaluate`` takes them.
    """

    sources: list[str] | None
    references: Sequence[Sequence[str | None]]

    @classmethod
    def from_files(cls, source: Path | None, references: Sequence[Path]) -> HeldOut:
        """Line by line: line n of every file belongs to the same sentence.

        Raises:
            EvaluationError: The files differ in their number of lines.
            DataError: A file cannot be read.
        """
        found = [list(read_lines(path)) for path in references]
        sources = list(read_lines(source)) if source is not None else None
        expected = len(found[0]) if sources is None else len(sources)
        named = source if source is not None else references[0]
        for path, lines in zip(references, found, strict=True):
            if len(lines) != expected:
                raise EvaluationError(
                    f"{named} has {expected} lines, {path} has {len(lines)}: "
                    "expected a reference for each sentence"
                )
        return cls(sources, found)

    @classmethod
    def from_corpus(cls, spec: str, source: str, target: str) -> HeldOut:
        """A corpus; a sentence that it has several times is taken once, with all references.

        Args:
            spec: As ``data.train``; of a ``builtin:`` or ``tfds:`` corpus the test split,
                where no other is named.
            source: Language of the sentences.
            target: Language of the references.

        Raises:
            DataError: The corpus cannot be read.
        """
        pairs = read_pairs(spec, source, target, "test")
        sources, references = group((pair.source, pair.target) for pair in pairs)
        if not sources:
            raise EvaluationError(f"{spec}: there are no sentences to evaluate")
        return cls(sources, references)
