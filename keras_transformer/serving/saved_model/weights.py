"""Weights of a SavedModel as plain TensorFlow variables, optionally bfloat16 or int8.

The C++ loader of TensorFlow Serving does not restore variables that Keras wraps: it cannot match
them with the checkpoint. So Keras' variables stay out of the SavedModel, and the model computes
with the values stored here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.serving.settings import Precision

# Smaller matrices, biases and normalization gains stay in float32: int8 would save nothing.
_LEAST_QUANTIZED = 4_096


class Weights(tf.Module):
    """Stored weights of a model.

    ``int8`` stores integers from -127 to 127 with one scale per row or per column of a matrix,
    whichever has the smaller error, and computes in float32.

    Args:
        model: Source of the values; it computes with the stored weights inside ``applied``.
        precision: ``float32``, ``bfloat16`` (for a model with layers of that dtype) or ``int8``.
    """

    def __init__(self, model: keras.Model, precision: Precision = "float32") -> None:
        super().__init__()
        # tf.Module must not track Keras' variables.
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
        """Return a context in which the model computes with the stored weights.

        Enter it inside the traced function but outside its loops, so that a call reads the
        variables, and dequantizes ``int8``, only once.
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
        """Size of all stored variables."""
        return sum(_size(variable) * variable.dtype.size for variable in self.variables)


class _Untracked:
    """Holder that hides objects from the tracking of ``tf.Module``."""

    def __init__(self, items: list[keras.Variable]) -> None:
        self.items = items


class _Plain(tf.Module):
    def __init__(self, value: tf.Tensor) -> None:
        super().__init__()
        self.weight = tf.Variable(value, trainable=False, name="weight")

    def value(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.weight)


class _Packed(tf.Module):
    """All biases and gains in one variable: each variable adds nodes to the graph."""

    def __init__(self, vectors: list[np.ndarray], dtype: str) -> None:
        super().__init__()
        self._sizes = [vector.size for vector in vectors]
        joined = np.concatenate([np.zeros(0), *vectors]).astype(np.float32)
        self.packed = tf.Variable(tf.cast(joined, dtype), trainable=False, name="packed")

    def values(self) -> list[tf.Tensor]:
        """Return the vectors in order."""
        return tf.split(tf.convert_to_tensor(self.packed), self._sizes) if self._sizes else []


class _Quantized(tf.Module):
    """An int8 matrix with its scales."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__()
        candidates = [_quantize(matrix, axis) for axis in (0, 1)]
        errors = [np.square(whole * scale - matrix).sum() for whole, scale in candidates]
        whole, scale = candidates[int(np.argmin(errors))]
        self.whole = tf.Variable(whole.astype(np.int8), trainable=False, name="whole")
        self.scale = tf.Variable(scale, trainable=False, name="scale")

    def value(self) -> tf.Tensor:
        return tf.cast(self.whole, tf.float32) * self.scale


def _quantize(matrix: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return integers and scales along ``axis`` whose product approximates ``matrix``."""
    greatest = np.abs(matrix).max(axis=axis, keepdims=True)
    scale = np.where(greatest > 0, greatest / 127, 1).astype(np.float32)
    return np.rint(matrix / scale), scale


def _values(weight: keras.Variable) -> np.ndarray:
    return np.asarray(weight.value, np.float32)


def _size(variable: keras.Variable | tf.Variable) -> int:
    return int(np.prod(variable.shape))
