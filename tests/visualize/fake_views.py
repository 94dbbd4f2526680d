"""A made-up view, whose weights are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_transformer.visualize.attention_view import AttentionView
from keras_transformer.visualize.next_tokens import Candidate, NextTokens
from keras_transformer.visualize.tokens import Token

END = Token("[end]", "end", "special")
START = Token("[start]", "start", "special")


def words(*texts: str) -> tuple[Token, ...]:
    """Return tokens, each with a space before."""
    kinds = ["punctuation" if text in ".,!?" else "text" for text in texts]
    return tuple(
        Token(f"\u02cd{text}", text, kind)  # type: ignore[arg-type]
        for text, kind in zip(texts, kinds, strict=True)
    )


def shifted(rows: int, columns: int, by: int, share: float = 0.7) -> np.ndarray:
    """Return weights: ``share`` on the column of the row's number and ``by``, the rest alike."""
    weights = np.full((rows, columns), (1 - share) / (columns - 1), np.float32)
    for row in range(rows):
        weights[row, (row + by) % columns] = share
    return weights


def view(
    source: Sequence[str] = ("a", "dog", "runs"), target: Sequence[str] = ("ein", "Hund", "rennt")
) -> AttentionView:
    """Return a view of one layer with two heads; head 2 is head 1 moved by one."""
    sources, targets = (*words(*source), END), (*words(*target), END)
    inputs = (START, *targets[:-1])

    def heads(rows: Sequence[Token], columns: Sequence[Token]) -> list[np.ndarray]:
        return [np.stack([shifted(len(rows), len(columns), by) for by in (0, 1)])]

    other = words("Katze")[0]
    return AttentionView(
        sentence=" ".join(source),
        translation=" ".join(target),
        forced=False,
        source=sources,
        inputs=inputs,
        target=targets,
        encoder=heads(sources, sources),
        decoder=heads(inputs, inputs),
        cross=heads(targets, sources),
        next_tokens=[
            NextTokens(Candidate(token, 0.75), 1, (Candidate(token, 0.75), Candidate(other, 0.2)))
            for token in targets
        ],
        beam=None,
        notes=(),
    )
