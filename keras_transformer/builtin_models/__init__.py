"""Trained models that come with the package, each in a run folder beside this file.

The name ``builtin:phrasebook`` stands for the folder ``phrasebook/``. It has no prepared data and
no checkpoints, and nothing writes into it.
"""

from __future__ import annotations

import os
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.field_types import format_value

PREFIX = "builtin:"
CARD = "card.json"
"""Name of the model card in each folder."""
_FOLDER = Path(__file__).resolve().parent


class BuiltinModelError(UserError):
    """An unknown built-in model, or an attempt to change one."""


def names() -> list[str]:
    """Return the names of the built-in models, such as ``builtin:phrasebook``."""
    return sorted(f"{PREFIX}{path.parent.name}" for path in _FOLDER.glob("*/config.yaml"))


def is_builtin(run: Path | str) -> bool:
    """Return whether a name or a path stands for a built-in model, known or not."""
    return os.fspath(run).startswith(PREFIX) or Path(run).resolve().parent == _FOLDER


def run_folder(run: Path | str) -> Path:
    """Return the run folder that a path or the name of a built-in model stands for.

    Raises:
        BuiltinModelError: The built-in model does not exist.
    """
    name = os.fspath(run)
    if not name.startswith(PREFIX):
        return Path(run)
    if name not in names():
        raise BuiltinModelError(
            f"run: expected a run folder or {' or '.join(names())}, got {format_value(name)}"
        )
    return _FOLDER / name.removeprefix(PREFIX)


def display_name(folder: Path) -> str:
    """Return the name of a built-in model for its folder, and the path of any other."""
    return f"{PREFIX}{folder.name}" if is_builtin(folder) else str(folder)


def refuse_writing(run: Path | str, option: str = "--run") -> None:
    """Refuse a built-in model where files are to be written.

    Args:
        run: A path or the name of a built-in model.
        option: The option that holds it, for the message.

    Raises:
        BuiltinModelError: ``run`` stands for a built-in model.
    """
    if is_builtin(run) and option != "--run":
        raise BuiltinModelError(
            f"{run}: a built-in model cannot be changed; choose another {option}"
        )
    if is_builtin(run):
        raise BuiltinModelError(
            f"{run}: a built-in model cannot be changed; choose another --run, and train it "
            f"further with --init_from {PREFIX}NAME"
        )
