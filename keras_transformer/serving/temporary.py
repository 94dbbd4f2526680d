"""Export for the life of a process: the local server of a built-in model."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.run import Run
from keras_transformer.serving.dev_bleu import Log
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings


@contextlib.contextmanager
def temporary_export(run: Run, log: Log) -> Iterator[Path]:
    """Export a run into a temporary folder, which is removed at the end of the block.

    Args:
        run: A trained run; the name of its folder is the model's.
        log: Called with each line of progress.

    Yields:
        The folder of the versions, with one SavedModel.

    Raises:
        UserError: The run cannot be exported, or the temporary folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="keras_transformer.") as parent:
        folder = Path(parent) / run.path.name
        export(run, run.config.search, folder, ExportSettings(dev_sentences=0), log)
        yield folder
