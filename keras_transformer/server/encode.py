"""JSON of predict replies, laid out as in TensorFlow Serving."""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

import numpy as np

from keras_transformer.server.errors import RestError
from keras_transformer.server.signature import Array, Arrays

_INDENT = "    "


def encode(outputs: Arrays, layout: Literal["row", "column"]) -> bytes:
    """Return the reply to a predict request.

    Invalid UTF-8, which TensorFlow Serving copies, becomes U+FFFD, so that a reply is always
    valid text.

    Args:
        outputs: Outputs by name.
        layout: Layout of the request; "row" needs the batch as every output's first dimension.

    Raises:
        RestError: The type of an output has no JSON form, or the outputs have no common rows.
    """
    values = {name: _values(name, outputs[name]) for name in sorted(outputs)}
    text = _by_row(outputs, values) if layout == "row" else _by_column(values)
    return text.encode()


def _by_row(outputs: Arrays, values: dict[str, Any]) -> str:
    sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise RestError(
            f"the outputs have no common number of rows ({sizes}); ask by column, with 'inputs'"
        )
    if len(values) == 1:
        (column,) = values.values()
        rows = [f"{_INDENT * 2}{_dump(row)}" for row in column]
    else:
        rows = [
            _object(dict(zip(values, row, strict=True)), 2)
            for row in zip(*values.values(), strict=True)
        ]
    return f'{{\n{_INDENT}"predictions": [\n' + ",\n".join(rows) + f"\n{_INDENT}]\n}}\n"


def _by_column(values: dict[str, Any]) -> str:
    if len(values) == 1:
        (column,) = values.values()
        return f'{{\n{_INDENT}"outputs": {_dump(column)}\n}}\n'
    return f'{{\n{_INDENT}"outputs": {_object(values, 1).lstrip()}\n}}\n'


def _object(values: dict[str, Any], level: int) -> str:
    pad = _INDENT * level
    lines = [f"{pad}{_INDENT}{_dump(name)}: {_dump(value)}" for name, value in values.items()]
    return f"{pad}{{\n" + ",\n".join(lines) + f"\n{pad}}}"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _values(name: str, array: Array) -> Any:
    """Return an array as nested lists of JSON values."""
    if array.dtype.kind in "biu":
        return array.tolist()
    if array.dtype == np.float64:
        return array.tolist()
    if array.dtype == np.float32:
        # The shortest text of the same float32: 0.2, not 0.20000000298.
        return array.astype(str).astype(np.float64).tolist()
    if array.dtype.kind in "OS":
        as_bytes = name.endswith("_bytes")
        return _strings(array.tolist(), as_bytes)
    raise RestError(f"{name}: an output of the type {array.dtype} cannot be given in JSON")


def _strings(value: Any, as_bytes: bool) -> Any:
    if isinstance(value, list):
        return [_strings(element, as_bytes) for element in value]
    if as_bytes:
        return {"b64": base64.b64encode(value).decode("ascii")}
    return value.decode("utf-8", "replace")
