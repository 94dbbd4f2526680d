"""Numbers, tokens and tensors as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from tools.generated_blocks import table

SHOWN = 4
"""Values of a vector that are shown."""


def number(value: float, digits: int = 3) -> str:
    """Return a number with a fixed count of decimals; a rounded zero has no sign."""
    text = f"{float(value):.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def vector(values: Any, digits: int = 3) -> str:
    """Return the first values of a vector, and an ellipsis if there are more."""
    values = np.ravel(values)
    shown = ", ".join(number(value, digits) for value in values[:SHOWN])
    return shown + (", …" if len(values) > SHOWN else "")


def pieces(side: LanguageTokenizer, ids: Iterable[int]) -> list[str]:
    """Return the subword piece of each id as code."""
    return [f"`{piece}`" for piece in side.pieces(list(ids))]


def matrix(corner: str, rows: Sequence[str], columns: Sequence[str], values: Any) -> str:
    """Return a table of a matrix with two decimals."""
    cells = [
        [name, *(number(value, 2) for value in row)] for name, row in zip(rows, values, strict=True)
    ]
    return table([corner, *columns], cells)


def hexadecimal(text: str) -> str:
    """Return the UTF-8 bytes of a text as code."""
    return f"`{text.encode().hex(' ')}`"
