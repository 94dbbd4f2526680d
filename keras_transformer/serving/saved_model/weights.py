"""The weights of a SavedModel: plain TensorFlow variables, stored in fewer bits where wanted.

TensorFlow Serving restores variables in C++, and the objects that Keras wraps around its own
are not found again there: their values stay empty. So the network's variables are left out of
the SavedModel, and the network computes with the values that are kept here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.serving.settings import Precision

# Smaller matrices, biases and gains stay as they are: there is nothing to gain.
_LEAST_QUANTIZED = 4_096


class Weights(tf.Module):
    """The weights of a network in the form in which they are stored.

    ``int8`` stores whole numbers from -127 to 127 with one scale for each row or column of a
    matrix, whichever loses less, and computes in float32.

    Args:
        model: The network; it gives the values, and computes with what is stored here.
        precision: ``float32``, ``bfloat16`` (for a network whose layers have that dtype), or
            ``int8``.
    """

    def __init__(self, model: keras.Model, precision: Precision = "float32") -> None:
        super().__init__()
        # Keras' variables must not be found by TensorFlow's search for what belongs to a module.
        self._keras_variables = _Untracked(model.weights)
        vectors = [_values(weight) for weight in model.weights if len(weight.shape) == 1]
        kind = "float32" if precision == "int8" else precision
        self.vectors = _Packed(vectors, kind)
        self.matrices = [
            _Quantized(_values(weight))
            if precision == "int8" and _size(weight) >= _LEAST_QUANTIZED
            else _Plain(tf.cast(weight.value, kind))
            for weight in model.weights
            if len(weight.shape) != 1
        ]

    def applied(self) -> AbstractContextManager[keras.StatelessScope]:
        """Within this context the network computes with the stored weights.

        Enter it inside the function that is traced, outside its loops: the values are then
        read, and for ``int8`` multiplied out, once a call.
        """
        vectors = iter(self.vectors.values())
        matrices = iter(self.matrices)
        pairs = [
            (weight, next(vectors) if len(weight.shape) == 1 else next(matrices).value())
            for weight in self._keras_variables.items
        ]
        return keras.StatelessScope(pairs)

    @property
    def bytes(self) -> int:
        """Bytes of all that is stored."""
        return sum(_size(variable) * variable.dtype.size for variable in self.variables)


class _Untracked:
    """Holds objects out of sight of ``tf.Module``."""

    def __init__(self, items: list[keras.Variable]) -> None:
        self.items = items


class _Plain(tf.Module):
    def __init__(self, value: tf.Tensor) -> None:
        super().__init__()
        self.weight = tf.Variable(value, trainable=False, name="weight")

    def value(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.weight)


class _Packed(tf.Module):
    """Biases and gains end to end in one variable: each variable has its price in the graph."""

    def __init__(self, vectors: list[np.ndarray], dtype: str) -> None:
        super().__init__()
        self._sizes = [vector.size for vector in vectors]
        joined = np.concatenate([np.zeros(0), *vectors]).astype(np.float32)
        self.packed = tf.Variable(tf.cast(joined, dtype), trainable=False, name="packed")

    def values(self) -> list[tf.Tensor]:
        """The vectors, in order."""
        return tf.split(tf.convert_to_tensor(self.packed), self._sizes) if self._sizes else []


class _Quantized(tf.Module):
    """A matrix as whole numbers and scales."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__()
        found = [_quantize(matrix, axis) for axis in (0, 1)]
        losses = [np.square(whole * scale - matrix).sum() for whole, scale in found]
        whole, scale = found[int(np.argmin(losses))]
        self.whole = tf.Variable(whole.astype(np.int8), trainable=False, name="whole")
        self.scale = tf.Variable(scale, trainable=False, name="scale")

    def value(self) -> tf.Tensor:
        return tf.cast(self.whole, tf.float32) * self.scale


def _quantize(matrix: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers and the scales with which they give ``matrix``, one for each slice."""
    greatest = np.abs(matrix).max(axis=axis, keepdims=True)
    scale = np.where(greatest > 0, greatest / 127, 1).astype(np.float32)
    return np.rint(matrix / scale), scale


def _values(weight: keras.Variable) -> np.ndarray:
    return np.asarray(weight.value, np.float32)


def _size(variable: keras.Variable | tf.Variable) -> int:
    return int(np.prod(variable.shape))
