"""A run as a version of a served model: made aside, checked, measured, then put in place."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer import files
from keras_transformer.config import Config, SearchConfig
from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving import card, lint, warmup
from keras_transformer.serving.compact import compact
from keras_transformer.serving.folder import next_version
from keras_transformer.serving.module import ServedTranslator
from keras_transformer.serving.settings import ExportError, ExportSettings
from keras_transformer.serving.weights import Weights

Log = Callable[[str], None]

# Not a number, so that no server takes it for a version.
_STAGING = ".export-"
# Sentences given to the graph at once; it divides them further.
_ROWS = 500


def export(
    run: Run, search: SearchConfig, directory: Path, settings: ExportSettings, log: Log
) -> Path:
    """Make the next version of a served model from a run.

    Args:
        run: A trained run.
        search: How the export translates. ``n_best`` of 1 stands for the whole beam.
        directory: Folder of the versions; made if missing.
        settings: The other choices.
        log: Called with each line of progress.

    Returns:
        The folder of the new version.

    Raises:
        ExportError: The version is there already, sources cannot be so long, samples are
            wanted, or the weights in fewer bits lose too much. Nothing is written then.
        LintError: TensorFlow Serving would refuse the result. Nothing is written.
        FileError: No place on the disk, or another export is at work in ``directory``.
        RunError: The run has no weights yet.
    """
    search = _search(search)
    max_tokens = settings.max_tokens or run.config.data.max_tokens
    _check_length(max_tokens, run.config)
    next_version(directory, settings.version)  # refused before the long work, and again below
    log(f"reading {run.path}")
    model, tokenizer = run.model(), run.tokenizer()
    with _staging(directory) as staging:
        version = next_version(directory, settings.version)
        network = _network(model, run.config, settings.dtype)
        weights = Weights(network, settings.dtype)
        files.check_space(directory, weights.bytes + 2**22)
        module = ServedTranslator(network, weights, tokenizer, search, max_tokens)
        name = directory.resolve().name
        log(f"tracing the graph and writing version {version} of {name}")
        _save(module, staging, name)
        log("checking for what TensorFlow Serving would refuse")
        lint.check(staging)
        description = card.card(
            name=name,
            version=version,
            config=run.config,
            search=search,
            max_tokens=max_tokens,
            dtype=settings.dtype,
            parameters=model.count_params(),
            tokenizer=tokenizer,
            signatures=module.signatures,
            dev=_measured(run, model, search, staging, settings, log),
        )
        card.write(staging, description)
        _publish(staging, directory / str(version))
    return directory / str(version)


def _search(search: SearchConfig) -> SearchConfig:
    """The search of an export."""
    if search.sample:
        raise ExportError(
            "search.sample: expected false, an export searches with a beam, got true "
            "(--search.sample false)"
        )
    return dataclasses.replace(search, n_best=search.beam) if search.n_best == 1 else search


def _check_length(max_tokens: int, config: Config) -> None:
    limit = config.model.max_positions
    if config.model.positions == "learned" and max_tokens > limit:
        raise ExportError(
            f"max_tokens: expected at most {limit}, as many positions as the network has "
            f"learned, got {max_tokens}"
        )


@contextlib.contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A folder to work in, gone in the end; so is ``directory``, where nothing came into it.

    Nobody else exports there meanwhile, and what killed exports left goes too.
    """
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with files.alone(directory):
            for left in directory.glob(f"{_STAGING}*"):
                files.remove(left)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=directory))
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise files.FileError(f"{directory}: cannot be written: {error}") from error
    finally:
        if made:
            with contextlib.suppress(OSError):  # not empty: the version is there
                directory.rmdir()


def _network(model: keras.Model, config: Config, dtype: str) -> keras.Model:
    """The network in the type that it is to compute in."""
    if dtype != "bfloat16":
        return model
    network = transformer.build(config.model, "bfloat16")
    for ours, theirs in zip(network.weights, model.weights, strict=True):
        ours.assign(theirs)
    return network


def _save(module: ServedTranslator, staging: Path, name: str) -> None:
    try:
        tf.saved_model.save(module, str(staging), signatures=module.signatures)
    except tf.errors.OpError as error:  # such as a full disk
        reason = str(error.message).partition(" [Op:")[0].rpartition("; ")[2]
        raise OSError(reason) from error
    shutil.rmtree(staging / "assets", ignore_errors=True)  # empty
    compact(staging)
    inputs = {
        key: [spec.name for spec in function.input_signature]
        for key, function in module.signatures.items()
    }
    warmup.write(staging, name, inputs)


def _measured(
    run: Run,
    model: keras.Model,
    search: SearchConfig,
    staging: Path,
    settings: ExportSettings,
    log: Log,
) -> dict[str, Any] | None:
    """BLEU of what will be served; refuses weights in fewer bits that lose too much."""
    pairs = run.dev_pairs()[: settings.dev_sentences]
    if not pairs:
        return None
    sources, references = [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    language = run.config.data.target
    log(f"translating {len(pairs)} sentences of the dev set")
    found = evaluate(_served(staging, sources), references, language)
    dev = {"sentences": len(pairs), "bleu": found.bleu, "signature": found.bleu_signature}
    log(f"dev BLEU {found.bleu:.2f} on {len(pairs)} sentences")
    if settings.dtype == "float32":
        return dev
    data = dataclasses.replace(run.config.data, on_long="cut")
    translator = Translator(model, run.tokenizer(), search, data)
    whole = evaluate([item.text for item in translator.translate(sources)], references, language)
    log(f"dev BLEU {whole.bleu:.2f} with weights in float32")
    if whole.bleu - found.bleu > settings.max_bleu_loss:
        raise ExportError(
            f"dtype {settings.dtype}: expected at most {settings.max_bleu_loss} dev BLEU less than "
            f"in float32, got {found.bleu:.2f} for {whole.bleu:.2f}; nothing was written "
            "(--max_bleu_loss allows more)"
        )
    return dev | {"float32_bleu": whole.bleu}


def _served(directory: Path, sources: list[str]) -> list[str]:
    """The translations of a SavedModel, asked as a server would ask it."""
    translate = tf.saved_model.load(str(directory)).signatures["translate"]
    texts: list[str] = []
    for first in range(0, len(sources), _ROWS):
        answers = translate(text=tf.constant(sources[first : first + _ROWS]))
        texts += [text.decode() for text in answers["translation"].numpy()]
    return texts


def _publish(staging: Path, place: Path) -> None:
    """Let the version appear, whole even if the machine stops now."""
    for path in [*staging.rglob("*"), staging]:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    staging.chmod(0o755)  # temporary folders are private
    staging.rename(place)
