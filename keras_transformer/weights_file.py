"""Weights files of Keras, with the fingerprint of the tokenizer that they were trained with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer import system
from keras_transformer.errors import RunError, UserError

if TYPE_CHECKING:
    import keras

_FINGERPRINT = "tokenizer"  # attribute of the file
_LARGEST = float(np.finfo(np.float16).max)


def write_fingerprint(weights: Path, fingerprint: str) -> None:
    """Store the fingerprint of the tokenizer in a weights file."""
    import h5py

    with h5py.File(weights, "a") as file:
        file.attrs[_FINGERPRINT] = fingerprint


def write_float16(source: Path, target: Path, compressed: bool = True) -> None:
    """Copy a weights file with its weights in float16.

    Args:
        source: The file.
        target: The copy.
        compressed: Whether to compress the matrices, which takes long for a large model.

    Raises:
        UserError: A weight is too large for float16.
    """
    import h5py

    options: dict[str, Any] = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
    with h5py.File(source) as old, h5py.File(_create(target)) as new:
        new.attrs.update(old.attrs)

        def copy(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                values = item[()]  # HDF5's own conversion to float16 is wrong just below 2^n
                if values.dtype.kind == "f":
                    if np.abs(values).max(initial=0.0) > _LARGEST:
                        raise UserError(f"{source}: {name} is too large for float16")
                    values = values.astype(np.float16)
                chosen = options if compressed and values.ndim > 1 else {}
                new.create_dataset(name, data=values, **chosen)
            else:
                h5py.h5g.create(new.id, name.encode(), gcpl=_without_times(h5py.h5p.GROUP_CREATE))
            new[name].attrs.update(item.attrs)

        old.visititems(copy)


def round_to_float16(path: Path) -> None:
    """Replace a weights file by one with its weights in float16.

    Raises:
        UserError: A weight is too large for float16; the file stays.
    """
    with system.atomic_file(path) as partial:
        write_float16(path, partial, compressed=False)


def _create(path: Path) -> Any:
    """Create an HDF5 file without times, which would differ between two equal files.

    In the earlier version of the format, which is the default, the groups take 400 kB.
    """
    import h5py

    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    created = _without_times(h5py.h5p.FILE_CREATE)
    return h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, created, access)


def _without_times(kind: Any) -> Any:
    import h5py

    properties = h5py.h5p.create(kind)
    properties.set_obj_track_times(False)
    return properties


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
