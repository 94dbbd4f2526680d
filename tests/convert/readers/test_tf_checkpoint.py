"""TensorFlow checkpoints as data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.tf_checkpoint import SUFFIX, TfCheckpoint, find_prefix
from tests.support.tf_checkpoints import write_checkpoint

VALUES = {
    "model/a": np.array([[1, 2], [3, 4]], np.float32),
    "model/b": np.array([0.5], np.float16),
    "model/a/.OPTIMIZER_SLOT/optimizer/m": np.zeros([2, 2], np.float32),
    "optimizer/decay": np.array(0.1, np.float32),
    "save_counter": np.array(1, np.int64),
}


def test_weights_without_those_of_the_optimizer(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, VALUES, suffix=SUFFIX)
    checkpoint = TfCheckpoint(find_prefix(tmp_path))
    assert list(checkpoint) == ["model/a", "model/b"]
    for name in checkpoint:
        assert checkpoint[name].dtype == VALUES[name].dtype
        assert np.array_equal(checkpoint[name], VALUES[name])


def test_the_latest_checkpoint_is_found_in_the_folder(tmp_path: Path) -> None:
    prefix = write_checkpoint(tmp_path, VALUES)
    # The file holds a path of another machine.
    assert find_prefix(tmp_path) == prefix
    assert find_prefix(tmp_path / "ckpt-10.index") == prefix
    assert find_prefix(prefix) == prefix
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "../../ckpt-11"\n')
    with pytest.raises(ConvertError, match=r"names ckpt-11, but ckpt-11.index is not beside it"):
        find_prefix(tmp_path)
    (tmp_path / "checkpoint").write_text("other\n")
    with pytest.raises(ConvertError, match="expected model_checkpoint_path"):
        find_prefix(tmp_path)
    (tmp_path / "checkpoint").unlink()
    with pytest.raises(ConvertError, match="expected a folder with checkpoint"):
        find_prefix(tmp_path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    prefix = write_checkpoint(tmp_path, VALUES)
    data = tmp_path / "ckpt-10.data-00000-of-00001"
    whole = data.read_bytes()
    data.write_bytes(whole[:4])
    with pytest.raises(ConvertError, match=r"ckpt-10: "):
        dict(TfCheckpoint(prefix))
    data.write_bytes(bytes(len(whole)))
    with pytest.raises(ConvertError, match=r"ckpt-10: "):  # checksums differ
        dict(TfCheckpoint(prefix))
    index = tmp_path / "ckpt-10.index"
    index.write_bytes(b"x" * 100)
    with pytest.raises(ConvertError, match="expected a TensorFlow checkpoint"):
        TfCheckpoint(prefix)
