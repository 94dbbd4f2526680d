"""Signatures of a model, with NumPy arrays as inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic] | NDArray[np.object_]
Arrays = dict[str, Array]
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Spec:
    """Type and shape of an input or output.

    Attributes:
        dtype: TensorFlow's name of the type: "string", "float32", "int32", ...
        shape: Sizes, None for a variable one; None instead of the tuple for an unknown rank.
    """

    dtype: str
    shape: Shape | None

    @property
    def by_row(self) -> bool:
        """Return whether the first dimension is the batch."""
        return bool(self.shape) and self.shape is not None and self.shape[0] is None

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape fits."""
        if self.shape is None:
            return True
        pairs = zip(self.shape, shape, strict=False)
        return len(self.shape) == len(shape) and all(a is None or a == b for a, b in pairs)

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return an array of "" or zeros."""
        if self.dtype == "string":
            return np.full(shape, b"", dtype=object)
        return np.zeros(shape, dtype=self.dtype)


@dataclass(frozen=True)
class Signature:
    """A function of a SavedModel.

    Attributes:
        name: Its key in the SavedModel.
        method: Method name, such as ``tensorflow/serving/predict``.
        inputs: Inputs by name.
        outputs: Outputs by name.
    """

    name: str
    method: str = "tensorflow/serving/predict"
    inputs: Mapping[str, Spec] = field(default_factory=dict)
    outputs: Mapping[str, Spec] = field(default_factory=dict)

    @property
    def by_row(self) -> bool:
        """Return whether all inputs and outputs have the batch first: rows can then be divided."""
        return all(spec.by_row for spec in [*self.inputs.values(), *self.outputs.values()])

    @property
    def joinable(self) -> bool:
        """Return whether rows of different requests may share a batch.

        An output with another variable dimension is padded to the longest row of the batch, so
        it would depend on other requests.
        """
        outputs = [spec.shape for spec in self.outputs.values()]
        return self.by_row and all(None not in shape[1:] for shape in outputs if shape is not None)
