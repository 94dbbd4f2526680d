"""Contents of the page for one sentence pair, as JSON takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.visualize.heads import Part
from keras_transformer.visualize.next_tokens import Candidate

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import AttentionView


def page_data(view: AttentionView) -> dict[str, Any]:
    """Return the contents of the page: weights in thousandths, as whole numbers."""
    return {
        "sentence": view.sentence,
        "translation": view.translation,
        "forced": view.forced,
        "notes": list(view.notes),
        "parts": {part: _part_data(view, part) for part in view.parts},
        "next": [
            {
                "chosen": _candidate(position.chosen),
                "rank": position.rank,
                "candidates": [_candidate(candidate) for candidate in position.candidates],
            }
            for position in view.next_tokens
        ],
        "beam": {"svg": view.beam.svg(), "caption": view.beam.caption} if view.beam else None,
    }


def _part_data(view: AttentionView, part: Part) -> dict[str, Any]:
    statistics = [each for each in view.heads() if each.part == part]
    return {
        "rows": [token._asdict() for token in view.rows(part)],
        "columns": [token._asdict() for token in view.columns(part)],
        "layers": [thousandths(layer) for layer in view.layers(part)],
        "heads": [each._asdict() for each in statistics],
        "rollout": None if part == "cross" else thousandths(view.rollout(part)),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {**candidate.token._asdict(), "probability": round(candidate.probability, 5)}


def thousandths(weights: np.ndarray) -> list[Any]:
    """Return weights in thousandths, nested lists of whole numbers."""
    found: list[Any] = np.rint(weights * 1000).astype(int).tolist()
    return found
