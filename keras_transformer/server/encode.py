"""Replies to predict requests: output tensors to JSON, byte for byte as TensorFlow Serving.

Only the order of the outputs differs: alphabetical here, random in TensorFlow Serving.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from typing import Literal

from keras_transformer.server.errors import RestError
from keras_transformer.server.json_numbers import format_floats
from keras_transformer.server.signature import Array, Arrays

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")
_SPECIAL = re.compile(rb'["\\\x00-\x1f]')
_ESCAPES = {bytes([code]): rb"\u%04X" % code for code in range(32)} | {
    b'"': rb"\"",
    b"\\": rb"\\",
    b"\b": rb"\b",
    b"\f": rb"\f",
    b"\n": rb"\n",
    b"\r": rb"\r",
    b"\t": rb"\t",
}


def encode(outputs: Arrays, layout: Literal["row", "column"]) -> bytes:
    """Format the reply to a predict request.

    Strings are copied as they are, even if they are not UTF-8.

    Args:
        outputs: Outputs by name.
        layout: Layout of the request; "row" needs the batch as every output's first dimension.

    Raises:
        RestError: The type of an output has no JSON form, or the outputs have no common rows.
    """
    if not outputs:
        raise RestError("the signature has no outputs")
    arrays = {name: outputs[name] for name in sorted(outputs)}
    if layout == "row":
        return _object([("predictions", _predictions(arrays))], 0)
    depth = 1 if len(arrays) == 1 else 2
    columns = [(name, _column(name, array, depth)) for name, array in arrays.items()]
    return _object([("outputs", columns[0][1] if depth == 1 else _object(columns, 1))], 0)


def _predictions(arrays: Arrays) -> bytes:
    """Return the list of rows; each row is an object if there are several outputs."""
    sizes = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise RestError(
            f"the outputs have no common number of rows ({sizes}); ask by column, with 'inputs'"
        )
    if len(arrays) > 1:
        columns = [_rows(name, array, 3) for name, array in arrays.items()]
        rows = zip(*columns, strict=True)
        return _lines([_object(list(zip(arrays, row, strict=True)), 2) for row in rows], 1, b"[]")
    ((name, array),) = arrays.items()
    # TensorFlow Serving writes the rows of a single output in one line, but breaks the line before
    # the closing bracket.
    texts = b", ".join(_rows(name, array, 2))
    return b"[%b%b]" % (texts, _break(1)) if len(array) else b"[]"


def _column(name: str, array: Array, depth: int) -> bytes:
    """Return an output with each list over several lines."""
    texts = _values(name, array, depth + array.ndim)
    for level in reversed(range(array.ndim)):
        texts = [_lines(group, depth + level, b"[]") for group in _groups(texts, array, level)]
    return texts[0]


def _rows(name: str, array: Array, depth: int) -> list[bytes]:
    """Return the rows of an output with each list in a single line."""
    texts = _values(name, array, depth + array.ndim - 1)
    for level in reversed(range(1, array.ndim)):
        texts = [b"[%b]" % b", ".join(group) for group in _groups(texts, array, level)]
    return texts


def _groups(texts: list[bytes], array: Array, level: int) -> list[list[bytes]]:
    """Group the texts of dimension ``level`` by the list that holds them."""
    size = array.shape[level]
    lists = math.prod(array.shape[:level])
    return [texts[number * size : (number + 1) * size] for number in range(lists)]


def _values(name: str, array: Array, depth: int) -> list[bytes]:
    """Return the texts of an array's values, the last dimension fastest."""
    flat = array.ravel()
    kind = flat.dtype.name
    if kind == "bool":
        return [b"true" if value else b"false" for value in flat.tolist()]
    if kind in _INTEGERS:
        return [b"%d" % value for value in flat.tolist()]
    if kind in ("float32", "float64"):
        return [text.encode() for text in format_floats(flat)]
    if flat.dtype.kind in "OS":
        if not name.endswith("_bytes"):
            return [_string(value) for value in flat.tolist()]
        return [
            _object([("b64", b'"%b"' % base64.b64encode(value))], depth) for value in flat.tolist()
        ]
    if flat.size:
        raise RestError(f"{name}: an output of the type {array.dtype} cannot be given in JSON")
    return []


def _object(members: Sequence[tuple[str, bytes]], depth: int) -> bytes:
    """Return an object; names end at a NUL, as in C."""
    texts = [
        b"%b: %b" % (_string(name.partition("\0")[0].encode()), text) for name, text in members
    ]
    return _lines(texts, depth, b"{}")


def _lines(texts: list[bytes], depth: int, brackets: bytes) -> bytes:
    """Return a list or object with one line for each of its texts."""
    if not texts:
        return brackets
    separator = b"," + _break(depth + 1)
    return brackets[:1] + _break(depth + 1) + separator.join(texts) + _break(depth) + brackets[1:]


def _break(depth: int) -> bytes:
    return b"\n" + b"    " * depth


def _string(value: bytes) -> bytes:
    return b'"%b"' % _SPECIAL.sub(lambda found: _ESCAPES[found[0]], value)
