"""Weights files of Keras, with the fingerprint of the tokenizer that they were trained with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer import system
from keras_transformer.errors import RunError

if TYPE_CHECKING:
    import keras

_FINGERPRINT = "tokenizer"  # attribute of the file


def write_fingerprint(weights: Path, fingerprint: str) -> None:
    """Store the fingerprint of the tokenizer in a weights file."""
    import h5py

    with h5py.File(weights, "a") as file:
        file.attrs[_FINGERPRINT] = fingerprint


def load(model: keras.Model, path: Path, fingerprint: str) -> None:
    """Load weights in float32 or float16 into a model; an optimizer stays as it is.

    Args:
        model: A model of the architecture of the weights.
        path: The weights file.
        fingerprint: That of the model's tokenizer.

    Raises:
        RunError: The file cannot be read, or belongs to another architecture or tokenizer.
    """
    import keras

    try:
        system.check_regular(path)
        keras.Model(model.input, model.output).load_weights(path)
        found, trained_with = parameters_and_fingerprint(path)
    except (ValueError, OSError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"{path}: cannot be loaded: {reason}") from error
    if found != model.count_params():  # Keras skips weights that the model lacks
        raise RunError(
            f"{path}: expected the {model.count_params():,} parameters of the model in "
            f"config.yaml, got {found:,}"
        )
    if trained_with not in ("", fingerprint):
        raise RunError(
            f"{path}: expected weights trained with the tokenizer in "
            f"{path.parent / 'tokenizer'}, got those of another one"
        )


def parameters_and_fingerprint(weights: Path) -> tuple[int, str]:
    """Return the number of parameters in a weights file and the fingerprint of its tokenizer.

    The integer states of dropout do not count. The fingerprint is "" if the file has none.
    """
    import h5py

    sizes: list[int] = []

    def count(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            sizes.append(item.size)

    with h5py.File(weights) as file:
        file["layers"].visititems(count)
        return sum(sizes), str(file.attrs.get(_FINGERPRINT, ""))
