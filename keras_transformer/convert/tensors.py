"""Tensors of a checkpoint, each of which must be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from keras_transformer.convert.errors import ConvertError

_NAMED = 6  # names in a message


class Tensors:
    """Tensors by name, which counts their uses.

    Args:
        values: The tensors by name; a mapping may read each when it is looked up.
        file: Their file, for messages.

    Example:
        ``tensors.take("encoder.fc1.weight", (2048, 512))``
    """

    def __init__(self, values: Mapping[str, np.ndarray], file: object) -> None:
        self._values = values
        self._used: set[str] = set()
        self.file = str(file)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def take(self, name: str, shape: Sequence[int | None] | None = None) -> np.ndarray:
        """Return a tensor in float32 or float16, and count it as used.

        Args:
            name: Its name in the file.
            shape: The expected shape; None stands for any size, or for any shape.

        Raises:
            ConvertError: The tensor is missing, has another shape or type, or holds a number that
                is not finite.
        """
        if name not in self._values:
            raise ConvertError(f"{self.file}: expected the tensor {name}, found none")
        value = self._values[name]
        self._used.add(name)
        if shape is not None and not _fits(value.shape, shape):
            raise ConvertError(
                f"{self.file}: {name}: expected the shape {_format(shape)}, got "
                f"{_format(value.shape)}"
            )
        return self._numbers(name, value)

    def _numbers(self, name: str, value: np.ndarray) -> np.ndarray:
        if value.dtype.kind != "f":
            raise ConvertError(
                f"{self.file}: {name}: expected floating-point numbers, got {value.dtype} "
                "(quantized weights cannot be converted)"
            )
        if value.dtype not in (np.float16, np.float32):
            with np.errstate(over="ignore"):  # infinities are refused below
                value = value.astype(np.float32)
        if not np.isfinite(value).all():
            raise ConvertError(f"{self.file}: {name}: expected finite numbers, found NaN or inf")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without using it.

        Raises:
            ConvertError: It is missing.
        """
        if name not in self._values:
            raise ConvertError(f"{self.file}: expected the tensor {name}, found none")
        return tuple(self._values[name].shape)

    def take_copies(self, names: Iterable[str], original: str) -> None:
        """Use further names of a tied matrix, those which the file has.

        Args:
            names: Names that should hold the same matrix.
            original: The name that was taken.

        Raises:
            ConvertError: One of them differs, so that the matrices are not tied.
        """
        for name in names:
            if name in self._values:
                self._used.add(name)
                if not np.array_equal(self._values[name], self._values[original]):
                    raise ConvertError(
                        f"{self.file}: {name}: expected the same matrix as {original}, to which "
                        "it is tied, got another one"
                    )

    def ignore(self, accepts: Callable[[str], bool]) -> None:
        """Count tensors as used that hold no weights, such as tables of sinusoids.

        Args:
            accepts: Return whether to ignore the tensor of a name.
        """
        self._used.update(name for name in self._values if accepts(name))

    def check_all_used(self) -> None:
        """Check that no tensor is left.

        Raises:
            ConvertError: Names the tensors that the conversion has no place for.
        """
        left = [name for name in self._values if name not in self._used]
        if left:
            more = f" and {len(left) - _NAMED} others" if len(left) > _NAMED else ""
            raise ConvertError(
                f"{self.file}: expected only tensors of the described network, found also "
                f"{', '.join(left[:_NAMED])}{more}: the model has parts that cannot be converted"
            )


def _fits(shape: tuple[int, ...], expected: Sequence[int | None]) -> bool:
    return len(shape) == len(expected) and all(
        want is None or want == got for want, got in zip(expected, shape, strict=True)
    )


def _format(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
