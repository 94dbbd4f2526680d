"""Attention matrices of many lines as one ``.npz`` file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np

from keras_transformer.inference.alignment import Attention

AddLine = Callable[[int, Attention | None], None]
"""``add(line number, attention)``; None for a blank line."""


@contextmanager
def attention_file(stream: BinaryIO) -> Iterator[AddLine]:
    """Write attention line by line, without keeping it in memory.

    ``numpy.load`` reads for line N, counted from 1, ``attention_N`` (T, S) float32, with a row
    for each piece of the translation, and the pieces ``target_N`` (T,) and ``source_N`` (S,);
    all are empty for a blank line.

    Args:
        stream: The file to write; it may be a pipe.

    Yields:
        The function that adds a line.
    """
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(number: int, attention: Attention | None) -> None:
            source, target = (attention.source, attention.target) if attention else ((), ())
            weights = attention.weights if attention else np.zeros((0, 0), np.float32)
            for name, array in (
                ("attention", weights),
                ("source", np.array(source, np.str_)),
                ("target", np.array(target, np.str_)),
            ):
                with archive.open(f"{name}_{number}.npy", "w") as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)

        yield add
