"""Paths for libraries that accept names in UTF-8 only, as TensorFlow does."""

from __future__ import annotations

import os
from pathlib import Path

_descriptors: dict[Path, int] = {}


def utf8_path(path: Path) -> Path:
    """Return a path to the same file, in UTF-8.

    A folder whose name is not UTF-8, which only Linux allows, is reached through a descriptor,
    which stays open.

    Args:
        path: A file or folder, which need not exist. Only names of existing folders are replaced.
    """
    if _is_utf8(path):
        return path
    folder = next(parent for parent in (path, *path.parents) if parent.is_dir())
    return Path(f"/proc/self/fd/{_descriptor(folder.resolve())}", path.relative_to(folder))


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _descriptor(folder: Path) -> int:
    """Return a descriptor of a folder, opened again if another folder has taken its path."""
    known = _descriptors.get(folder)
    if known is not None:
        if os.path.samestat(os.fstat(known), folder.stat()):
            return known
        os.close(known)
    _descriptors[folder] = os.open(folder, os.O_RDONLY)
    return _descriptors[folder]
