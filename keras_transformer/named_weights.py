"""Weights of a model by attribute path, such as ``encoder/layers/0/self_attention/query_kernel``.

A path begins with the name of a layer of the model. An attribute or the index in a list follows
each slash. Kernels are (in, out), embeddings (V, D).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    import keras

_LISTED = 5
"""Paths in a message; the others are counted."""


class NamedWeightsError(UserError):
    """Arrays that are not the weights of a model; the message lists them."""


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Return each weight of a model by its path, in the order of the layers.

    A matrix that several layers share has one path, that of the first of them. The seeds of
    dropout are no weights.
    """
    wanted = {id(weight) for weight in model.weights}
    found: dict[str, keras.Variable] = {}
    for layer in model.layers:
        for path, variable in _variables(layer, layer.name, set()):
            if id(variable) in wanted:
                wanted.remove(id(variable))
                found[path] = variable
    if wanted:  # a layer that keeps its weights in another kind of attribute
        lost = [weight.path for weight in model.weights if id(weight) in wanted]
        raise RuntimeError(f"weights without an attribute path: {_listed(lost)}")
    return found


def _variables(item: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the variables in the public attributes of a layer and of the layers inside it."""
    import keras

    if isinstance(item, keras.Variable):
        yield path, item
    elif isinstance(item, list | tuple):
        for index, element in enumerate(item):
            yield from _variables(element, f"{path}/{index}", seen)
    elif isinstance(item, keras.Layer) and id(item) not in seen:
        seen.add(id(item))  # layers may refer to each other
        for name, value in vars(item).items():
            if not name.startswith("_"):
                yield from _variables(value, f"{path}/{name}", seen)


def assign_weights(model: keras.Model, weights: Mapping[str, np.ndarray]) -> None:
    """Assign all weights of a model, or none if something does not fit.

    Args:
        model: A model that `transformer.build` returned.
        weights: An array for each path of `named_weights`, in the shape of that weight, in any
            floating-point type.

    Raises:
        NamedWeightsError: A weight is missing, left over, of another shape, or not finite. The
            message names it with the shapes.
    """
    variables = named_weights(model)
    problems = [
        *_count("missing", (path for path in variables if path not in weights)),
        *_count("unknown to the model", (path for path in weights if path not in variables)),
    ]
    common = [path for path in variables if path in weights]
    shapes = {path: (tuple(variables[path].shape), np.shape(weights[path])) for path in common}
    problems += _count(
        "of another shape",
        (
            f"{path} (expected {expected}, got {received})"
            for path, (expected, received) in shapes.items()
            if expected != received
        ),
    )
    problems += _count(
        "not of finite floating-point numbers",
        (path for path in common if not _is_finite(weights[path])),
    )
    if problems:
        raise NamedWeightsError(
            f"weights: expected an array for each of the {len(variables)} weights of the model, "
            f"got {'; '.join(problems)}"
        )
    for path, variable in variables.items():
        variable.assign(np.asarray(weights[path], np.float32))


def _is_finite(array: np.ndarray) -> bool:
    values = np.asarray(array)
    return values.dtype.kind == "f" and bool(np.isfinite(values).all())


def _count(problem: str, items: Iterable[str]) -> list[str]:
    listed = list(items)
    return [f"{len(listed)} {problem}: {_listed(listed)}"] if listed else []


def _listed(items: list[str]) -> str:
    return ", ".join(items[:_LISTED]) + (", ..." if len(items) > _LISTED else "")
