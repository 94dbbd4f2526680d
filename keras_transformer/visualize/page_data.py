"""Data of the page for one sentence pair, ready for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.visualize.heads import AttentionKind
from keras_transformer.visualize.next_tokens import Candidate

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import AttentionView


def page_data(view: AttentionView) -> dict[str, Any]:
    """Return the data of the page; weights are integers, in thousandths."""
    return {
        "sentence": view.sentence,
        "translation": view.translation,
        "forced": view.forced,
        "notes": list(view.notes),
        "kinds": {kind: _kind_data(view, kind) for kind in view.kinds},
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


def _kind_data(view: AttentionView, kind: AttentionKind) -> dict[str, Any]:
    statistics = [each for each in view.heads() if each.kind == kind]
    return {
        "rows": [token._asdict() for token in view.rows(kind)],
        "columns": [token._asdict() for token in view.columns(kind)],
        "layers": [thousandths(layer) for layer in view.layers(kind)],
        "heads": [each._asdict() for each in statistics],
        "rollout": None if kind == "cross" else thousandths(view.rollout(kind)),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {**candidate.token._asdict(), "probability": round(candidate.probability, 5)}


def thousandths(weights: np.ndarray) -> list[Any]:
    """Return weights in thousandths, as nested lists of integers."""
    found: list[Any] = np.rint(weights * 1000).astype(int).tolist()
    return found
