"""Format marian."""

from __future__ import annotations

from pathlib import Path

from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings import ConvertSettings

NAME = "marian"
DESCRIPTION = "Marian: model.npz with special:model.yml, or an OPUS-MT folder"
OPTIONS: frozenset[str] = frozenset()


def recognises(source: Path) -> bool:
    """Return whether the source is of this format."""
    return False


def read(source: Path, settings: ConvertSettings) -> ForeignModel:
    """Read and check a model."""
    raise NotImplementedError
