"""Search settings of marian-decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_transformer.validation import MAX_HYPOTHESES

_BEAM = 12  # marian-decoder's defaults
_MAX_LENGTH_FACTOR = 3
_GREATEST_ALPHA = 10.0


def search_settings(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return our fields of the search, and notes about options that cannot be carried over.

    Args:
        options: Contents of ``decoder.yml``; empty: marian-decoder's defaults.
    """
    beam = options.get("beam-size", _BEAM)
    factor = _number(options.get("max-length-factor", _MAX_LENGTH_FACTOR), _MAX_LENGTH_FACTOR)
    settings: dict[str, Any] = {
        "search.beam": min(beam, MAX_HYPOTHESES) if type(beam) is int and beam > 0 else _BEAM,
        "search.length_penalty": "power",
        "search.alpha": min(max(_number(options.get("normalize", 0), 0), 0), _GREATEST_ALPHA),
        # Marian counts the end token of the source.
        "search.max_factor": factor,
        "search.max_extra": max(round(factor), 1),
        "search.allow_unknown": bool(options.get("allow-unk", False)),
    }
    ignored = [
        f"{name} {options[name]}"
        for name, neutral in (("word-penalty", 0), ("shortlist", None), ("output-sampling", None))
        if options.get(name, neutral) not in (neutral, False, [])
    ]
    notes = []
    if ignored:
        notes.append(f"search: without a counterpart here, left out: {', '.join(ignored)}")
    if not options:
        notes.append(
            "search: there is no decoder.yml; beam 12 without length penalty, as in Marian"
        )
    return settings, notes


def _number(value: object, default: float) -> float:
    if isinstance(value, bool):  # normalize: true stands for 1
        return float(value)
    return float(value) if isinstance(value, int | float) and value >= 0 else float(default)
