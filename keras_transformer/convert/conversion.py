"""Conversion of a checkpoint to a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from keras_transformer.convert import registry
from keras_transformer.convert.settings import ConvertSettings


def prepare(source: Path, run: Path, settings: ConvertSettings, name: str) -> registry.Format:
    """Check the arguments of a conversion; return the format of the source."""
    chosen = registry.find(source, name)
    registry.check_options(chosen, settings)
    return chosen


def convert(
    chosen: registry.Format,
    source: Path,
    run: Path,
    settings: ConvertSettings,
    log: Callable[[str], None],
    start_tensorflow: Callable[[], None],
) -> None:
    """Convert a checkpoint."""
    raise NotImplementedError
