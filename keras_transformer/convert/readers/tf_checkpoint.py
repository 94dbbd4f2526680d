"""TensorFlow checkpoints as data: names, shapes and numbers, no graph and no code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import limits

SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
"""Ending of the names of variables that an object holds."""
_SLOTS = ".OPTIMIZER_SLOT"
_LATEST = re.compile(r'^model_checkpoint_path:\s*"([^"]+)"', re.MULTILINE)
_INDEX = ".index"


def find_prefix(source: Path) -> Path:
    """Return the prefix of the latest checkpoint in a folder, or of one of its files.

    Only its name is taken from the folder's file ``checkpoint``, which may hold the path of
    another machine.

    Raises:
        ConvertError: There is none.
    """
    if source.suffix == _INDEX:
        return source.with_suffix("")
    if source.with_name(source.name + _INDEX).is_file():
        return source
    state = source / "checkpoint"
    if not state.is_file():
        raise ConvertError(f"{source}: expected a folder with checkpoint and ckpt-N.index")
    found = _LATEST.search(limits.read_text(state))
    if found is None:
        raise ConvertError(f"{state}: expected model_checkpoint_path, found none")
    prefix = source / re.split(r"[/\\]", found[1])[-1]
    if not prefix.with_name(prefix.name + _INDEX).is_file():
        raise ConvertError(
            f"{state}: names {prefix.name}, but {prefix.name}{_INDEX} is not beside it"
        )
    return prefix


class TfCheckpoint(Mapping[str, np.ndarray]):
    """The variables of a checkpoint, without those of an optimizer; read when looked up.

    Names of variables that an object holds are without `SUFFIX`.

    Args:
        prefix: The path without ``.index``.

    Raises:
        ConvertError: It cannot be read, or is larger than its files.
    """

    def __init__(self, prefix: Path) -> None:
        import tensorflow as tf

        self._prefix = prefix
        limits.check_size(prefix.with_name(prefix.name + _INDEX), limits.MAX_TEXT_BYTES)
        try:
            self._reader: Any = tf.train.load_checkpoint(str(prefix))
            shapes = self._reader.get_variable_to_shape_map()
            types = self._reader.get_variable_to_dtype_map()
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise ConvertError(
                f"{prefix}: expected a TensorFlow checkpoint, got {_first_line(error)}"
            ) from error
        self._names = {
            name.removesuffix(SUFFIX): name
            for name in sorted(shapes)
            if types[name].is_floating and _SLOTS not in name and not name.startswith("optimizer/")
        }
        sizes = [math.prod(shapes[name]) * types[name].size for name in self._names.values()]
        limits.check_tensor_sizes(prefix, sizes)
        # A damaged index could announce more than all memory.
        data = prefix.parent.glob(f"{prefix.name}.data-*")
        if sum(sizes) > sum(path.stat().st_size for path in data):
            raise ConvertError(
                f"{prefix}: expected files of at least {sum(sizes):,} bytes beside the index "
                "(a half-copied checkpoint?)"
            )

    def __getitem__(self, name: str) -> np.ndarray:
        import tensorflow as tf

        full = self._names[name]
        try:
            value: np.ndarray = self._reader.get_tensor(full)
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise ConvertError(f"{self._prefix}: {name}: {_first_line(error)}") from error
        if value.dtype.kind != "f":  # bfloat16
            return value.astype(np.float32)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
