"""Weights files of Keras, with the fingerprint of the tokenizer that they were trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_FINGERPRINT = "tokenizer"  # attribute of the file


def write_fingerprint(weights: Path, fingerprint: str) -> None:
    """Store the fingerprint of the tokenizer in a weights file."""
    import h5py

    with h5py.File(weights, "a") as file:
        file.attrs[_FINGERPRINT] = fingerprint


def parameters_and_fingerprint(weights: Path) -> tuple[int, str]:
    """Return the number of parameters in a weights file and the fingerprint of its tokenizer.

    The integer states of dropout do not count. The fingerprint is "" if the file has none.
    """
    import h5py

    sizes: list[int] = []

    def count(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            sizes.append(item.size)

    with h5py.File(weights) as file:
        file["layers"].visititems(count)
        return sum(sizes), str(file.attrs.get(_FINGERPRINT, ""))
