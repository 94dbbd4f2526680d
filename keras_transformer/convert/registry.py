"""Formats by name, and recognition of the format of a source."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.readers import json_file
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.validation import unknown_message

NAMES = ("marian", "hf_marian", "fairseq", "fsmt", "opennmt_tf", "joeynmt", "ctranslate2")
"""Values of ``--from``; each is a module in ``formats/``."""

_LISTED = 8  # entries of a folder in a message
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z")


class Format(Protocol):
    """A module in ``formats/``."""

    NAME: str
    DESCRIPTION: str
    OPTIONS: frozenset[str]

    def recognises(self, source: Path) -> bool:
        """Return whether a file or folder is of this format, without reading its weights."""

    def read(self, source: Path, settings: ConvertSettings) -> ForeignModel:
        """Read and check a model."""


def load(name: str) -> Format:
    """Return the module of a format.

    Raises:
        ConvertError: There is no such format.
    """
    if name not in NAMES:
        raise ConvertError(unknown_message(name, "format", NAMES))
    module: Format = importlib.import_module(f"keras_transformer.convert.formats.{name}")
    return module


def find(source: Path, name: str = "") -> Format:
    """Return the format of a source.

    Args:
        source: A file or folder.
        name: The format that the user named; "": recognise it.

    Raises:
        ConvertError: The source is missing, no format recognises it, or several do.
    """
    if not source.exists():
        raise ConvertError(f"{source}: expected a file or folder of a model, found none")
    if name:
        return load(name)
    found = [each for each in map(load, NAMES) if each.recognises(source)]
    if len(found) == 1:
        return found[0]
    if found:
        names = " or ".join(f"--from {each.NAME}" for each in found)
        raise ConvertError(f"{source}: expected files of one format, found several; add {names}")
    supported = "; ".join(f"{each.NAME} ({each.DESCRIPTION})" for each in map(load, NAMES))
    raise ConvertError(
        f"{source}: expected a model of a known format, found {_describe(source)}. "
        f"Formats: {supported}"
    )


def _describe(source: Path) -> str:
    if source.is_file():
        size = f"a file of {source.stat().st_size:,} bytes"
        if source.suffix in _ARCHIVES:
            return f"{size}, an archive: unpack it and give its folder"
        return f"{size} (if it belongs to a folder, give the folder)"
    visible = (path for path in source.iterdir() if not path.name.startswith("."))
    names = sorted(f"{path.name}/" if path.is_dir() else path.name for path in visible)
    if not names:
        return "an empty folder"
    if "config.json" in names and (kind := _model_type(source / "config.json")):
        return f"a config.json of model_type {kind}"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _model_type(config: Path) -> str:
    try:
        return str(json_file.read_object(config).get("model_type", ""))
    except ConvertError:
        return ""


def check_options(chosen: Format, settings: ConvertSettings) -> None:
    """Refuse options that a format has no use for.

    Raises:
        ConvertError: Names the first one, and the formats that use it.
    """
    common = {"dtype", "source_language", "target_language"}
    for option in sorted(settings.given() - common - chosen.OPTIONS):
        users = [each.NAME for each in map(load, NAMES) if option in each.OPTIONS]
        raise ConvertError(
            f"--{option}: expected a source of the format {' or '.join(users)}, got {chosen.NAME}"
        )
