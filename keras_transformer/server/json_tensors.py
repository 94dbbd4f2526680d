"""Arrays from nested JSON lists, by TensorFlow Serving's rules.

The first elements determine the shape, and all others must have it. Numbers are rounded to float32
and float64, and integers are cut to 8 and 16 bits.
"""

from __future__ import annotations

import base64
import re
from itertools import chain
from typing import Any

import numpy as np

from keras_transformer.server.errors import RestError
from keras_transformer.server.json_parser import JsonObject, describe
from keras_transformer.server.signature import Array, Spec

_MAX_RANK = 64  # of a NumPy array; TensorFlow's is 254
_PADDED = re.compile(rb"([A-Za-z0-9+/]*)([=.]*)")
_SPACES = b" \t\n\v\f\r"  # ignored in base64
_TYPES: dict[str, tuple[set[type], str]] = {
    "string": ({bytes, JsonObject}, 'a string or {"b64": ...}'),
    "bool": ({bool}, "true or false"),
    "float32": ({int, float}, "a number (float32)"),
    "float64": ({int, float}, "a number (float64)"),
    **{
        name: ({int}, f"a whole number ({name})")
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")
    },
}
_NARROW = ("int8", "int16", "uint8")  # cut from int32


def to_array(value: Any, spec: Spec, where: str) -> Array:
    """Convert a nested list to an array.

    Args:
        value: Value from ``parse_json``.
        spec: Type and shape of the input.
        where: Name of the value in messages.

    Raises:
        RestError: The lists are not of the shape of the first ones, are deeper than the input, or
            hold a value of a wrong type.
    """
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    if spec.dtype not in _TYPES and 0 not in shape:
        # TensorFlow Serving needs the missing conversion only if there is a value.
        code = "INVALID_ARGUMENT" if isinstance(first, JsonObject) else "UNIMPLEMENTED"
        raise _no_json_form(spec.dtype, where, code)
    rank = _MAX_RANK if spec.shape is None else len(spec.shape)
    if len(shape) > rank:
        raise RestError(f"{where}: expected lists {rank} deep, got {len(shape)} deep")
    values = _flatten(value, shape, where)
    return _convert(values, spec.dtype, shape, where).reshape(shape)


def _flatten(value: Any, shape: list[int], where: str) -> list[Any]:
    values = [value]
    for level, size in enumerate(shape):
        for number, item in enumerate(values):
            if not isinstance(item, list) or len(item) != size:
                found = f"{len(item)}" if isinstance(item, list) else describe(item)
                place = _place(where, number, shape[:level])
                raise RestError(f"{place}: expected lists of {size} like the first, got {found}")
        values = list(chain.from_iterable(values))
    return values


def _place(where: str, number: int, shape: list[int]) -> str:
    """Return the name of an element in messages.

    Args:
        where: Name of the array.
        number: Index of the element in the flat list.
        shape: Shape of the array.
    """
    return where + "".join(f"[{index}]" for index in np.unravel_index(number, shape))


def _convert(values: list[Any], dtype: str, shape: list[int], where: str) -> Array:
    if dtype not in _TYPES:  # no values
        return np.empty(0, _numpy_type(dtype, where))
    types, wanted = _TYPES[dtype]
    if not set(map(type, values)) <= types:
        number = next(n for n, value in enumerate(values) if type(value) not in types)
        place = _place(where, number, shape)
        raise RestError(f"{place}: expected {wanted}, got {describe(values[number])}")
    if dtype == "string":
        return _strings(values, shape, where)
    if types == {int}:
        return _integers(values, dtype, shape, where)
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        return np.array(values, np.bool_ if dtype == "bool" else np.float64).astype(dtype)


def _strings(values: list[bytes | JsonObject], shape: list[int], where: str) -> Array:
    decoded = [value if isinstance(value, bytes) else _from_base64(value) for value in values]
    if None in decoded:
        number = decoded.index(None)
        value: Any = values[number]
        found = describe(value.first_values()[b"b64"] if is_base64(value) else value)
        raise RestError(f"{_place(where, number, shape)}: expected base64, got {found}")
    texts = np.empty(len(decoded), dtype=object)
    texts[:] = decoded
    return texts


def _integers(values: list[int], dtype: str, shape: list[int], where: str) -> Array:
    limits = np.iinfo("int32" if dtype in _NARROW else dtype)
    if values and not limits.min <= min(values) <= max(values) <= limits.max:
        number = next(n for n, v in enumerate(values) if not limits.min <= v <= limits.max)
        expected = f"a number from {limits.min} to {limits.max}"
        place = _place(where, number, shape)
        raise RestError(f"{place}: expected {expected}, got {values[number]}")
    return np.array(values, limits.dtype).astype(dtype)


def _numpy_type(dtype: str, where: str) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise _no_json_form(dtype, where, "UNIMPLEMENTED") from None


def _no_json_form(dtype: str, where: str, code: str) -> RestError:
    return RestError(f"{where}: the type {dtype} cannot be given in JSON", code)


def is_base64(value: Any) -> bool:
    """Return True for an object ``{"b64": "..."}``."""
    if not isinstance(value, JsonObject) or len(value.members) != 1:
        return False
    key, content = value.members[0]
    return key == b"b64" and isinstance(content, bytes)


def _from_base64(value: JsonObject) -> bytes | None:
    """Return the bytes of ``{"b64": "..."}``, None for another object or invalid base64.

    Padding is all or nothing, of "=" or "."; ASCII spaces may stand anywhere.
    """
    if not is_base64(value):
        return None
    found = _PADDED.fullmatch(value.members[0][1].translate(None, _SPACES))
    rest = len(found[1]) % 4 if found else 1
    if found is None or rest == 1 or len(found[2]) not in (0, -rest % 4):
        return None
    return base64.b64decode(found[1] + b"=" * (-rest % 4))
