"""The NumPy reference: functions of the notebooks, without running the notebooks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tools import notebooks

TAG = "reference"


def cells(name: str) -> list[str]:
    """Return the sources of a notebook's cells with the tag "reference"."""
    found = notebooks.from_script(name).cells
    return [cell.source for cell in found if TAG in cell.metadata.get("tags", [])]


def load(name: str) -> SimpleNamespace:
    """Return the functions of a notebook's cells with the tag "reference"; they use NumPy only."""
    names: dict[str, Any] = {"np": np}
    for source in cells(name):
        exec(source, names)
    return SimpleNamespace(**names)
