"""Calls, connections and sub-layers of the functional model, for its picture."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras

Call = tuple[str, int]  # a layer's name and the number of the call: a shared layer has several


@dataclasses.dataclass(frozen=True)
class Node:
    """Arguments of a call in the functional model."""

    inputs: list[Call]
    """The calls whose outputs it takes."""
    options: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Sublayer:
    """A sub-layer of an encoder or decoder layer, and the residual connection around it."""

    name: str
    connection: str
    inputs: tuple[str, ...]
    """Arguments of the whole layer that the sub-layer takes beside ``x``."""
    causal: bool


def nodes(model: keras.Model) -> dict[Call, Node]:
    """Return the calls of the layers, inputs included."""
    found = {}
    for layer in model.get_config()["layers"]:
        for number, node in enumerate(layer["inbound_nodes"] or [{"args": [], "kwargs": {}}]):
            inputs = list(_origins([node["args"], *node["kwargs"].values()]))
            found[layer["name"], number] = Node(inputs, node["kwargs"])
    return found


def _origins(value: Any) -> Iterator[Call]:
    """Yield the calls whose outputs are in the arguments of a call."""
    if isinstance(value, dict) and "keras_history" in value.get("config", {}):
        name, number, _ = value["config"]["keras_history"]
        yield name, number
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _origins(item)


def arguments(stack: keras.layers.Layer, node: Node) -> dict[str, Call]:
    """Return the argument names of a stack's layers, such as ``memory``, with their origins."""
    return dict(zip(inspect.signature(stack.layers[0].call).parameters, node.inputs, strict=False))


def sublayers(stack: keras.layers.Layer) -> list[Sublayer]:
    """Return the sub-layers of a stack's layers, in the order in which they run.

    The stack's first layer runs once on zeros while its parts report their arguments.
    """
    import keras

    layer = stack.layers[0]
    names = inspect.signature(layer.call).parameters
    given = {
        name: keras.ops.zeros([size or 1 for size in tensor.shape], tensor.dtype)
        for name, tensor in zip(names, stack.input, strict=False)
    }
    reports: list[tuple[str, tuple[str, ...], bool]] = []

    def reporting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def report(*values: Any, **options: Any) -> Any:
            taken = [key for key in given if any(value is given[key] for value in values)]
            reports.append((name, tuple(taken), options.get("causal", False)))
            return call(*values, **options)

        return report

    parts = {name: part for name, part in vars(layer).items() if isinstance(part, keras.Layer)}
    calls = {name: part.call for name, part in parts.items()}
    try:
        for name, part in parts.items():
            part.call = reporting(name, part.call)
        layer(*given.values())
    finally:
        for name, part in parts.items():
            part.call = calls[name]
    pairs = zip(reports[::2], reports[1::2], strict=True)  # a connection calls its sub-layer
    return [
        Sublayer(name, connection, tuple(key for key in inputs if key != "x"), causal)
        for (connection, _, _), (name, inputs, causal) in pairs
    ]


def section(layer: keras.layers.Layer) -> str:
    """Return the section of the paper that the class or its file names, or ""."""
    for docstring in (type(layer).__doc__, sys.modules[type(layer).__module__].__doc__):
        found = re.search(r"section ([\d.]*\d)", (docstring or "").split("\n\n")[0])
        if found:
            return found[1]
    return ""
