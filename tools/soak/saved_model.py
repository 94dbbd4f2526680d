"""Translations of an exported version, one sentence at a time and without the server."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from tools.soak.libraries import tensorflow

_lock = threading.Lock()


def translate(folder: Path, sentences: Sequence[str]) -> list[str]:
    """Translate sentences with the signature ``translate`` of a version.

    Args:
        folder: The version folder.
        sentences: The sentences; each is a batch of its own.
    """
    with _lock:
        tf = tensorflow()
        model = tf.saved_model.load(str(folder))
        function = model.signatures["translate"]
        outputs = [function(text=tf.constant([text])) for text in sentences]
        return [output["translation"].numpy()[0].decode() for output in outputs]
