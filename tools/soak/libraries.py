"""TensorFlow in the process of the endurance test, which only reads files with it."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from keras_transformer import environment
from keras_transformer.cli.main import import_tensorflow

_lock = threading.Lock()


def tensorflow() -> Any:
    """Import TensorFlow with its text operations, without its log, and return the module."""
    with _lock:
        environment.set_for_command()
        import_tensorflow()
        return importlib.import_module("tensorflow")
