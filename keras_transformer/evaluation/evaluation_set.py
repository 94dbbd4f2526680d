"""Evaluation set: source sentences and their references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.data.lines import read_lines
from keras_transformer.data.pairs import read_pairs
from keras_transformer.evaluation.metrics import EvaluationError, group_references


@dataclass(frozen=True)
class EvaluationSet:
    """Source sentences and their references.

    Attributes:
        sources: Sentences to translate; None if the translations are given.
        references: Sets of references, as for ``metrics.evaluate``.
    """

    sources: list[str] | None
    references: Sequence[Sequence[str | None]]

    @classmethod
    def from_files(cls, source: Path | None, references: Sequence[Path]) -> EvaluationSet:
        """Read files in which line n belongs to the same sentence.

        Args:
            source: File of sentences; None if the translations are given.
            references: Files of references, one or more.

        Raises:
            EvaluationError: The files differ in their number of lines.
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
        return cls(sources, streams)

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
            EvaluationError: The corpus is empty.
        """
        pairs = read_pairs(spec, source, target, "test")
        sources, references = group_references((pair.source, pair.target) for pair in pairs)
        if not sources:
            raise EvaluationError(f"{spec}: there are no sentences to evaluate")
        return cls(sources, references)
