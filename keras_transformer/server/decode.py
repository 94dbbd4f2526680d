"""Predict requests: a JSON body and a signature to input tensors, by TensorFlow Serving's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from keras_transformer.server.errors import RestError
from keras_transformer.server.json_parser import JsonObject, describe, parse_json
from keras_transformer.server.json_tensors import is_base64, to_array
from keras_transformer.server.signature import Arrays, Signature


@dataclass(frozen=True)
class PredictRequest:
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


def decode(body: bytes, find: Callable[[str], Signature]) -> PredictRequest:
    """Parse a predict request; of equal keys of an object, the first counts.

    Args:
        body: The body of the HTTP request.
        find: Returns the signature of a name, the default one for ""; may raise.

    Raises:
        RestError: The body is not a valid request for its signature.
    """
    document = parse_json(body)
    if not isinstance(document, JsonObject):
        raise RestError(f"expected a JSON object, got {describe(document)}")
    members = document.first_values()
    name = members.get(b"signature_name", b"")
    if not isinstance(name, bytes):
        raise RestError(f"signature_name: expected a string, got {describe(name)}")
    signature = find(_text(name))
    if not signature.inputs:
        raise RestError(f"signature_name: {signature.name!r} takes no input")
    given = [key for key in (b"instances", b"inputs") if key in members]
    if len(given) != 1:
        found = "both" if given else "neither"
        raise RestError(f"expected either 'instances' (rows) or 'inputs' (columns), got {found}")
    if given == [b"instances"]:
        inputs = _rows(members[b"instances"], signature)
    else:
        inputs = _columns(members[b"inputs"], signature)
    _check_shapes(inputs, signature)
    # Without a batch dimension, the request is one row, which cannot be divided.
    rows = next(iter(inputs.values())).shape[0] if signature.by_row else 1
    return PredictRequest(signature, "row" if given == [b"instances"] else "column", inputs, rows)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _rows(instances: Any, signature: Signature) -> Arrays:
    if not isinstance(instances, list):
        raise RestError(f"instances: expected a list, got {describe(instances)}")
    if not instances:
        raise RestError("instances: expected at least one, got an empty list")
    specs = signature.inputs
    named = _is_named(instances[0])
    if not named and len(specs) > 1:
        raise RestError(f"instances: expected objects with the keys {', '.join(sorted(specs))}")
    for number, instance in enumerate(instances):
        if _is_named(instance) != named:
            wanted = "an object" if named else "a value"
            raise RestError(f"instances[{number}]: expected {wanted} like the first one")
    columns = _by_name(instances, signature) if named else dict.fromkeys(specs, instances)
    where = "instances, {}" if named else "instances"
    try:
        return {
            name: to_array(columns[name], spec, where.format(name)) for name, spec in specs.items()
        }
    except RestError as error:
        # TensorFlow Serving has one code for all errors in a row.
        raise RestError(str(error)) from None


def _by_name(instances: list[JsonObject], signature: Signature) -> dict[str, list[Any]]:
    """Return the values of each input over all instances; keys end at a NUL, as in C."""
    columns: dict[str, list[Any]] = {name: [] for name in signature.inputs}
    for number, instance in enumerate(instances):
        keys = [_text(key.partition(b"\0")[0]) for key, _ in instance.members]
        if sorted(keys) != sorted(columns):
            if set(keys) == columns.keys():
                raise RestError(f"instances[{number}]: a key is given twice")
            wanted, got = (", ".join(sorted(names)) for names in (columns, keys))
            shown = got.encode("utf-8", "replace").decode()[:200] or "none"
            raise RestError(f"instances[{number}]: expected the keys {wanted}, got {shown}")
        for key, (_, value) in zip(keys, instance.members, strict=True):
            columns[key].append(value)
    return columns


def _columns(inputs: Any, signature: Signature) -> Arrays:
    specs = signature.inputs
    if not isinstance(inputs, JsonObject) or is_base64(inputs):
        if len(specs) > 1:
            raise RestError(f"inputs: expected an object with the keys {', '.join(sorted(specs))}")
        ((name, spec),) = specs.items()
        return {name: to_array(inputs, spec, "inputs")}
    members = inputs.first_values()
    missing = sorted(name for name in specs if name.encode() not in members)
    if missing:
        raise RestError(f"inputs: {', '.join(missing)} is missing")
    return {
        name: to_array(members[name.encode()], spec, f"inputs, {name}")
        for name, spec in specs.items()
    }


def _is_named(value: Any) -> bool:
    """Return True for an instance that is an object with the inputs by name."""
    return isinstance(value, JsonObject) and not is_base64(value)


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
