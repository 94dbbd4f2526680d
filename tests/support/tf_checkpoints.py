"""TensorFlow checkpoints with any names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf


def write_checkpoint(
    folder: Path, values: Mapping[str, np.ndarray], name: str = "ckpt-10", suffix: str = ""
) -> Path:
    """Write a checkpoint and the file ``checkpoint``; return its prefix.

    Args:
        folder: The folder.
        values: Arrays by name.
        name: Name of the checkpoint.
        suffix: Ending of all names in the file.
    """
    prefix = folder / name
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=[f"{each}{suffix}" for each in values],
        shape_and_slices=[""] * len(values),
        tensors=list(values.values()),
    )
    # Of a single shard, as TensorFlow's savers name it.
    for path in folder.glob(f"{name}.data-*"):
        path.rename(folder / f"{name}.data-00000-of-00001")
    state = f'model_checkpoint_path: "/home/other/run/{name}"\nall_model_checkpoint_paths: "a"\n'
    (folder / "checkpoint").write_text(state)
    return prefix
