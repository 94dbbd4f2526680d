"""Writing of pages and pictures to a folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer import builtin_models, system
from keras_transformer.optional_dependencies import install_command, unusable
from keras_transformer.system import FileError

if TYPE_CHECKING:
    from keras_transformer.visualize.attention_view import AttentionView
    from keras_transformer.visualize.comparison import Comparison
    from keras_transformer.visualize.heatmaps import Picture

logger = logging.getLogger(__name__)

EXTENSIONS = ("png", "svg")


def create_folder(folder: Path) -> None:
    """Create a folder for pictures, if it is missing.

    Raises:
        FileError: It cannot be created.
        BuiltinModelError: It is that of a built-in model.
    """
    system.check_local(folder)
    builtin_models.refuse_writing(folder, "--to")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be created: {error.strerror or error}") from error


def save_view(view: AttentionView, folder: Path, extension: str = "png") -> list[Path]:
    """Write the page ``attention.html``, the tree ``beam.svg``, and the pictures.

    Without Matplotlib the pictures are left out, with a warning. Existing files of these names are
    replaced, each when the new one is complete.

    Args:
        view: The sentence pair.
        folder: Created if it is missing.
        extension: "png" or "svg", format of the pictures of Matplotlib.

    Returns:
        The files written.

    Raises:
        FileError: A file cannot be written.
    """
    texts = {"attention.html": view.page()}
    if view.beam is not None:
        texts["beam.svg"] = view.beam.svg()
    pictures: dict[str, Callable[[], Picture]] = {
        kind: lambda kind=kind: view.figure(kind)  # type: ignore[misc]
        for kind in view.kinds
    }
    pictures["heads"] = view.heads_figure
    if view.kinds != ["cross"]:
        pictures["rollout"] = view.rollout_figure
    pictures["next_tokens"] = view.next_tokens_figure
    return _save_texts(folder, texts) + save_pictures(folder, pictures, extension)


def save_comparison(comparison: Comparison, folder: Path, extension: str = "png") -> list[Path]:
    """Write the page ``comparison.html`` and a picture of each kind, as `save_view` does."""
    pictures: dict[str, Callable[[], Picture]] = {
        f"comparison_{kind}": lambda kind=kind: comparison.figure(kind)  # type: ignore[misc]
        for kind in comparison.kinds
    }
    texts = {"comparison.html": comparison.page()}
    return _save_texts(folder, texts) + save_pictures(folder, pictures, extension)


def _save_texts(folder: Path, texts: dict[str, str]) -> list[Path]:
    create_folder(folder)
    for name, text in texts.items():
        system.write_text(folder / name, text)
    return [folder / name for name in texts]


def save_pictures(
    folder: Path, pictures: dict[str, Callable[[], Picture]], extension: str
) -> list[Path]:
    """Draw and write pictures by name; without Matplotlib, warn that they are left out."""
    problems = unusable(["matplotlib"])
    if problems:
        missing = f"Matplotlib is not installed: {install_command(['matplotlib'])}"
        reason = problems["matplotlib"] or missing
        logger.warning("%s pictures not drawn: %s", extension.upper(), reason)
        return []
    paths = []
    for name, draw in pictures.items():
        path = folder / f"{name}.{extension}"
        draw().save(path)
        paths.append(path)
    return paths
