"""JSON of predict requests, read by TensorFlow Serving's rules.

The first of two equal keys counts, NaN and Infinity are numbers, invalid UTF-8 stays in strings,
and integers that a float cannot represent exactly are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from keras_transformer.server.errors import RestError
from keras_transformer.server.signature import Array, Arrays, Signature, Spec

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BOM = b"\xef\xbb\xbf"
_MAX_RANK = 16  # of an input whose signature leaves the rank open


@dataclass(frozen=True)
class Request:
    """A request that fits its signature.

    Attributes:
        signature: The signature to run.
        layout: "row" for ``instances``, "column" for ``inputs``.
        inputs: Inputs by name.
        rows: Size of the batch; 1 if the signature has none.
    """

    signature: Signature
    layout: Literal["row", "column"]
    inputs: Arrays
    rows: int


class _DuplicateKeys(dict[str, Any]):
    """A JSON object with a duplicate key."""


def decode(body: bytes, find: Callable[[str], Signature]) -> Request:
    """Read a predict request.

    Args:
        body: The body of the HTTP request.
        find: Returns the signature of a name, the default one for ""; may raise.

    Raises:
        RestError: The body is not a valid request for its signature.
    """
    document = parse_json(body)
    if not isinstance(document, dict):
        raise RestError(f"expected a JSON object, got {_kind(document)}")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise RestError(f"signature_name: expected a string, got {_kind(name)}")
    signature = find(name)
    if not signature.inputs:
        raise RestError(f"signature_name: {signature.name!r} takes no input")
    given = [key for key in ("instances", "inputs") if key in document]
    if len(given) != 1:
        found = "both" if given else "neither"
        raise RestError(f"expected either 'instances' (rows) or 'inputs' (columns), got {found}")
    if given == ["instances"]:
        inputs = _rows(document["instances"], signature)
    else:
        inputs = _columns(document["inputs"], signature)
    _check_shapes(inputs, signature)
    # A request without a batch dimension cannot be divided.
    rows = next(iter(inputs.values())).shape[0] if signature.by_row else 1
    return Request(signature, "row" if given == ["instances"] else "column", inputs, rows)


def parse_json(body: bytes) -> Any:
    """Parse a JSON text.

    Raises:
        RestError: It is not valid JSON, or nested too deep.
    """
    if not body:
        raise RestError("the body is empty; expected a JSON object")
    raw = body.removeprefix(_BOM)
    try:
        text = raw.decode("utf-8", "surrogateescape")
        value = json.loads(text, object_pairs_hook=_object, parse_float=_float)
        if _SURROGATE.search(text):
            # Half of a surrogate pair cannot be encoded as UTF-8.
            json.dumps(json.loads(raw.decode("utf-8", "replace")), ensure_ascii=False).encode()
    except RecursionError:
        raise RestError("the body is not valid JSON: nested too deep") from None
    except UnicodeEncodeError:
        raise RestError("the body is not valid JSON: half of a surrogate pair") from None
    except ValueError as error:
        reason = str(error).partition(";")[0]
        raise RestError(f"the body is not valid JSON: {reason}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(reversed(pairs))
    return found if len(found) == len(pairs) else _DuplicateKeys(found)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _rows(instances: Any, signature: Signature) -> Arrays:
    if not isinstance(instances, list):
        raise RestError(f"instances: expected a list, got {_kind(instances)}")
    if not instances:
        raise RestError("instances: expected at least one, got an empty list")
    specs = signature.inputs
    named = _is_object(instances[0])
    for number, instance in enumerate(instances):
        if _is_object(instance) != named:
            wanted = "an object" if named else "a value"
            raise RestError(f"instances[{number}]: expected {wanted} like the first one")
        if named:
            _check_keys(instance, specs.keys(), f"instances[{number}]")
    if named:
        return {
            name: _array([row[name] for row in instances], spec, f"instances, {name}")
            for name, spec in specs.items()
        }
    if len(specs) > 1:
        raise RestError(f"instances: expected objects with the keys {', '.join(sorted(specs))}")
    ((name, spec),) = specs.items()
    return {name: _array(instances, spec, "instances")}


def _check_keys(instance: dict[str, Any], names: Any, where: str) -> None:
    if isinstance(instance, _DuplicateKeys):
        raise RestError(f"{where}: a key is given twice")
    if instance.keys() != names:
        wanted, got = (", ".join(sorted(keys)) for keys in (names, instance))
        raise RestError(f"{where}: expected the keys {wanted}, got {got[:200] or 'none'}")


def _columns(inputs: Any, signature: Signature) -> Arrays:
    specs = signature.inputs
    if not _is_object(inputs):
        if len(specs) > 1:
            raise RestError(f"inputs: expected an object with the keys {', '.join(sorted(specs))}")
        ((name, spec),) = specs.items()
        return {name: _array(inputs, spec, "inputs")}
    missing = sorted(specs.keys() - inputs.keys())
    if missing:
        raise RestError(f"inputs: {', '.join(missing)} is missing")
    return {name: _array(inputs[name], spec, f"inputs, {name}") for name, spec in specs.items()}


def _check_shapes(inputs: Arrays, signature: Signature) -> None:
    for name, value in inputs.items():
        spec = signature.inputs[name]
        if not spec.accepts(value.shape):
            wanted = ["any" if size is None else size for size in spec.shape or ()]
            if spec.by_row and not value.shape:
                raise RestError(
                    f"{name}: input tensors must have at least one dimension; expected a list "
                    'with one value for each row, such as {"inputs": ["..."]}, got a single value'
                )
            shapes = f"expected the shape {wanted}, got {list(value.shape)}".replace("'", "")
            raise RestError(f"{name}: {shapes}")
    if signature.by_row:
        sizes = {name: value.shape[0] for name, value in inputs.items()}
        if len(set(sizes.values())) > 1:
            raise RestError(f"inputs differ in their number of rows: {sizes}")


def _array(value: Any, spec: Spec, where: str) -> Array:
    """Return the array of a nested list; its first elements determine the shape."""
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    rank = _MAX_RANK if spec.shape is None else len(spec.shape)
    if len(shape) > rank:
        raise RestError(f"{where}: expected lists {rank} deep, got {len(shape)} deep")
    flat: list[Any] = []
    _fill(value, shape, 0, _converter(spec.dtype), flat, where)
    array = np.empty(len(flat), dtype=object if spec.dtype == "string" else spec.dtype)
    array[:] = flat
    return array.reshape(shape)


def _fill(
    value: Any,
    shape: list[int],
    level: int,
    convert: Callable[[Any], Any],
    flat: list[Any],
    where: str,
) -> None:
    if level == len(shape):
        try:
            flat.append(convert(value))
        except RestError as error:
            raise RestError(f"{where}: {error}") from None
        return
    if not isinstance(value, list) or len(value) != shape[level]:
        found = f"{len(value)}" if isinstance(value, list) else _kind(value)
        raise RestError(f"{where}: expected lists of {shape[level]} like the first, got {found}")
    for number, element in enumerate(value):
        _fill(element, shape, level + 1, convert, flat, f"{where}[{number}]")


def _converter(dtype: str) -> Callable[[Any], Any]:
    if dtype == "string":
        return _to_bytes
    if dtype == "bool":
        return _to_bool
    if dtype in ("float32", "float64"):
        return lambda value: _to_float(value, dtype)
    if dtype in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"):
        return lambda value: _to_int(value, dtype)
    raise RestError(f"an input of the type {dtype} cannot be given in JSON", "UNIMPLEMENTED")


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if not _is_base64(value):
        raise RestError(f'expected a string or {{"b64": ...}}, got {_kind(value)}')
    packed = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise RestError(f"expected base64, got {value['b64'][:40]!r}") from None


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RestError(f"expected true or false, got {_kind(value)}")
    return value


def _to_int(value: Any, dtype: str) -> int:
    limits = np.iinfo(dtype)
    if type(value) is not int:
        raise RestError(f"expected a whole number ({dtype}), got {_kind(value)}")
    if not limits.min <= value <= limits.max:
        raise RestError(f"expected a number from {limits.min} to {limits.max}, got a larger one")
    return value


def _to_float(value: Any, dtype: str) -> float:
    if type(value) not in (int, float):
        raise RestError(f"expected a number ({dtype}), got {_kind(value)}")
    limits = np.finfo(dtype)
    try:
        number = float(value)
    except OverflowError:
        raise RestError(f"expected a number that {dtype} can hold") from None
    # Integers beyond 64 bits are parsed as floats.
    exact = type(value) is int and abs(value) < 2**64
    largest = 2 ** (limits.nmant + 1) - 1 if exact else float(limits.max)
    if math.isfinite(number) and abs(number) > largest:
        raise RestError(f"{value} cannot be a {dtype} without loss")
    return number


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _kind(value: Any) -> str:
    """Describe a value in a few words."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, int | float):
        return f"the number {value if abs(value) < 1e20 else f'{float(value):g}'}"
    return "a list" if isinstance(value, list) else "an object"
