"""Weights files of Keras, with the fingerprint of the tokenizer that they were trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TOKENIZER = "tokenizer"  # attribute of the file


def sign(weights: Path, tokenizer: str) -> None:
    """Store the fingerprint of the tokenizer in a weights file."""
    import h5py

    with h5py.File(weights, "a") as file:
        file.attrs[_TOKENIZER] = tokenizer


def inspect(weights: Path) -> tuple[int, str]:
    """Return the number of parameters in a weights file and the fingerprint of its tokenizer.

    The integer states of dropout do not count. Without a fingerprint, it is "".
    """
    import h5py

    sizes: list[int] = []

    def count(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            sizes.append(item.size)

    with h5py.File(weights) as file:
        file["layers"].visititems(count)
        return sum(sizes), str(file.attrs.get(_TOKENIZER, ""))
