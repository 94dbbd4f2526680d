"""Late import of the modules that draw with Matplotlib, an optional dependency."""

from __future__ import annotations

import importlib
from typing import Any

from keras_transformer.optional_dependencies import require_installed


def drawing_module(name: str) -> Any:
    """Import a module of this package that draws.

    Args:
        name: Its name in this package, such as "figures".

    Raises:
        MissingError: Matplotlib is not installed; the message says how to install it.
    """
    require_installed("pictures", ["matplotlib"])
    return importlib.import_module(f"{__package__}.{name}")
