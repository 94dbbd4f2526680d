"""Export of a run as the next version of a model, in one of several formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from keras_transformer import builtin_models, system
from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.run import Run
from keras_transformer.serving import card
from keras_transformer.serving.dev_bleu import Log, dev_bleu
from keras_transformer.serving.settings import ExportSettings, Format, Precision, refuse_samples
from keras_transformer.serving.version_folder import model_name, new_version
from keras_transformer.utf8_paths import utf8_path

# Space for everything but the weights: graph, tokenizer, card.
_OVERHEAD = 2**22


class Writer(Protocol):
    """Writer of a run, held in memory, in one format.

    Args:
        run: A trained run.
        search: How the export translates.
        max_tokens: Longest source in tokens, END counted.
        dtype: Storage type of the weights.

    Attributes:
        tokenizer: The tokenizer of the run.
        parameters: Number of parameters.
        bytes: Disk space that the weights need while the version is written.
        libraries: Versions of libraries that only this format uses.

    Raises:
        ExportError: The format does not support the model.
        RunError: The run has no weights yet.
    """

    tokenizer: Tokenizer
    parameters: int
    bytes: int
    libraries: dict[str, str]

    def __init__(
        self, run: Run, search: SearchConfig, max_tokens: int, dtype: Precision
    ) -> None: ...

    def write(self, folder: Path, name: str, log: Log) -> None:
        """Write and check everything but the card; ``name`` is the model's."""

    def interface(self) -> dict[str, Any]:
        """Return the signatures and the search for the card; call it after ``write``."""

    def translate(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with the written version, as its users do."""

    def translate_float32(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with the same search and float32 weights; temporary files go to ``folder``."""


def _saved_model() -> type[Writer]:
    from keras_transformer.serving.saved_model.writer import SavedModelWriter

    return SavedModelWriter


def _ctranslate2() -> type[Writer]:
    from keras_transformer.serving.ctranslate2.writer import CTranslate2Writer

    return CTranslate2Writer


def _marian_hf() -> type[Writer]:
    from keras_transformer.serving.marian_hf.writer import MarianHfWriter

    return MarianHfWriter


# Functions, so that a format is imported on use: ctranslate2 is an optional package.
WRITERS: dict[Format, Callable[[], type[Writer]]] = {
    "saved_model": _saved_model,
    "ctranslate2": _ctranslate2,
    "marian-hf": _marian_hf,
}
"""Writer of each format."""


def export(
    run: Run, search: SearchConfig, directory: Path, settings: ExportSettings, log: Log
) -> Path:
    """Write the next version of a model from a run.

    The version appears only when it is complete, checked and measured.

    Args:
        run: A trained run.
        search: How the export translates.
        directory: Folder of the versions; made if missing. Its name is the model's.
        settings: Format and other options.
        log: Called with each line of progress.

    Returns:
        The folder of the new version.

    Raises:
        ExportError: The format does not support the model or the search, the version exists, a
            SavedModel of this name cannot be served, the model has fewer positions than
            ``settings.max_tokens``, or the stored weights lose too much BLEU. Nothing is written.
        LintError: TensorFlow Serving would refuse the SavedModel. Nothing is written.
        FileError: The disk is full, or another process exports into ``directory``.
        RunError: The run has no weights yet.
    """
    refuse_samples(search)
    name = directory.resolve().name
    if settings.format == "saved_model":
        name = model_name(directory)
    max_tokens = settings.longest_source(run.config)
    log(f"reading {builtin_models.display_name(run.path)}")
    for line in run.config.model.warnings():
        log(line)
    writer = WRITERS[settings.format]()(run, search, max_tokens, settings.dtype)
    with new_version(directory, settings.version) as (new, version):
        folder = utf8_path(new)
        system.check_space(directory, writer.bytes + _OVERHEAD)
        log(f"writing version {version} of {name}")
        writer.write(folder, name, log)

        def translate(lines: list[str]) -> list[str]:
            return writer.translate(folder, lines)

        def translate_float32(lines: list[str]) -> list[str]:
            return writer.translate_float32(folder, lines)

        description = card.card(
            name=name,
            version=version,
            config=run.config,
            interface=writer.interface(),
            dtype=settings.dtype,
            parameters=writer.parameters,
            tokenizer=writer.tokenizer,
            dev=dev_bleu(run, translate, translate_float32, settings, log),
            libraries=writer.libraries,
            checksums=card.checksums(folder),
        )
        card.write(folder, description)
    return directory / str(version)
