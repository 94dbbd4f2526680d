"""Recognition of a stored table of sinusoids."""

from __future__ import annotations

import numpy as np

from keras_transformer.convert.errors import ConvertError

_TOLERANCE = 2e-3  # of tables in float16


def sinusoids(positions: int, d_model: int, rates: str, first: int = 0) -> np.ndarray:
    """Return sinusoids in halves, all sines before all cosines.

    Args:
        positions: Number of positions, P.
        d_model: D.
        rates: "paper": angles p / 10000^(i / n), i from 0 to n - 1, n = D / 2; "tensor2tensor":
            p / 10000^(i / (n - 1)).
        first: The first position.

    Returns:
        (P, D) float64.
    """
    half = d_model // 2
    divisor = half if rates == "paper" else max(half - 1, 1)
    frequencies = 10_000.0 ** (-np.arange(half) / divisor)
    angles = np.arange(first, first + positions)[:, None] * frequencies  # (P, D / 2)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def find_rates(table: np.ndarray, file: object, name: str, first: int = 0) -> str:
    """Return the angular rates of a table of sinusoids in halves.

    Args:
        table: (P, D).
        file: Its file, for messages.
        name: Its name, for messages.
        first: The first position.

    Raises:
        ConvertError: The table holds other numbers.
    """
    positions, d_model = table.shape
    for rates in ("paper", "tensor2tensor"):
        expected = sinusoids(positions, d_model, rates, first)
        if np.allclose(table, expected, rtol=0, atol=_TOLERANCE):
            return rates
    raise ConvertError(
        f"{file}: {name}: expected sinusoids, sines before cosines, got other numbers"
    )
