"""Writer of safetensors files: a length, a JSON header of types, shapes and offsets, the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {"float32": "F32", "float16": "F16"}
_ALIGNMENT = 8  # bytes, of the data
_METADATA = "__metadata__"


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors as Hugging Face's libraries read them.

    Args:
        path: The file, in a folder that appears when it is complete.
        tensors: Arrays by name, in float32 or float16.
    """
    # The widest types come first, so that every tensor is aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {_METADATA: {"format": "pt"}}  # transformers refuses others
    position = 0
    for name in names:
        tensor = tensors[name]
        end = position + tensor.nbytes
        header[name] = {
            "dtype": _TYPES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            little = tensors[name].dtype.newbyteorder("<")
            file.write(np.ascontiguousarray(tensors[name], little).data)
