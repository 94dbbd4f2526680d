"""Comparison of two texts whose numbers may differ in their last digits."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]\d+)?")


def differences(expected: str, received: str, tolerance: float = 0.02) -> list[str]:
    """Return the lines that differ by more than the rounding of another processor.

    Args:
        expected: A text.
        received: Another one.
        tolerance: Greatest difference of two decimal fractions, absolute for numbers below 1 and
            relative above; whole numbers and words must be equal.
    """
    old, new = expected.splitlines(), received.splitlines()
    found = [f"- {a}\n+ {b}" for a, b in zip(old, new, strict=False) if not _equal(a, b, tolerance)]
    if len(old) != len(new):
        found.append(f"expected {len(old)} lines, got {len(new)}")
    return found


def _equal(a: str, b: str, tolerance: float) -> bool:
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(map(float, _NUMBER.findall(a)), map(float, _NUMBER.findall(b)), strict=True)
    return all(abs(x - y) <= tolerance * max(1.0, abs(x)) for x, y in pairs)
