"""Numbers of a peer about its own model, as JSON: the one form for all peers.

{
  "peer": ..., "variant": ..., "versions": {...},
  "words": whether the model reads words separated by spaces instead of text,
  "first_tokens": whether only first tokens can be compared,
  "search": {"beam", "alpha", "length_penalty", and the limit of tokens, END counted:
      "most", or "factor" times the source},
  "sources": as the model reads them, "source_tokens": [[...], ...],
  "n_best": for each of the first sources a list of hypotheses, best first:
      {"tokens": without END, "log_probs": of each token and of END if it ended, "score", "ended"},
  "greedy": for each source {"tokens": without END, "text", "ended"}
}

Runs in the environments of the peers, and needs no package.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Answers = dict[str, Any]
DIGITS = 6
"""Decimals that are kept; log-probabilities are compared to 1e-4."""


def hypothesis(
    tokens: Sequence[str], log_probs: Sequence[float], score: float, ended: bool
) -> Answers:
    """Return a hypothesis of an n-best list.

    Raises:
        ValueError: ``log_probs`` does not fit ``tokens``.
    """
    if len(log_probs) != len(tokens) + ended:
        raise ValueError(f"{len(tokens)} tokens, ended {ended}: got {len(log_probs)} numbers")
    return {
        "tokens": list(tokens),
        "log_probs": [round(float(number), DIGITS) for number in log_probs],
        "score": round(float(score), DIGITS),
        "ended": bool(ended),
    }


def greedy(tokens: Sequence[str], text: str, ended: bool) -> Answers:
    """Return a greedy translation."""
    return {"tokens": list(tokens), "text": text, "ended": bool(ended)}


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of packages and of Python."""
    found = {name: importlib.metadata.version(name) for name in packages}
    return {**found, "python": ".".join(map(str, sys.version_info[:3]))}


def write(file: Path, answers: Answers) -> None:
    """Write the numbers, a line for each sentence."""
    rows = []
    for key, value in answers.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in value)
            rows.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            rows.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
