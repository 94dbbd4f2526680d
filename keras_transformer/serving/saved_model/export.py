"""A run as a version of a served model: made aside, checked, measured, then put in place."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import tensorflow as tf

from keras_transformer import system
from keras_transformer.config import SearchConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.serving import card, warmup
from keras_transformer.serving.dev_bleu import Log, dev_bleu
from keras_transformer.serving.saved_model import lint
from keras_transformer.serving.saved_model.compact import compact
from keras_transformer.serving.saved_model.module import ServedTranslator
from keras_transformer.serving.saved_model.weights import Weights
from keras_transformer.serving.settings import ExportSettings, refuse_samples
from keras_transformer.serving.version_folder import new_version

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
    refuse_samples(search)
    if search.n_best == 1:
        search = dataclasses.replace(search, n_best=search.beam)
    max_tokens = settings.longest_source(run.config)
    log(f"reading {run.path}")
    model, tokenizer = run.model(), run.tokenizer()
    with new_version(directory, settings.version) as (staging, version):
        network = run.model("bfloat16") if settings.dtype == "bfloat16" else model
        weights = Weights(network, settings.dtype)
        system.check_space(directory, weights.bytes + 2**22)
        module = ServedTranslator(network, weights, tokenizer, search, max_tokens)
        name = directory.resolve().name
        log(f"tracing the graph and writing version {version} of {name}")
        _save(module, staging, name)
        log("checking for what TensorFlow Serving would refuse")
        lint.check(staging)

        def served(lines: list[str]) -> list[str]:
            return _served(staging, lines)

        def whole(lines: list[str]) -> list[str]:
            data = dataclasses.replace(run.config.data, on_long="cut")
            translator = Translator(model, tokenizer, search, data)
            return [item.text for item in translator.translate(lines)]

        description = card.card(
            name=name,
            version=version,
            config=run.config,
            interface=card.of_signatures(module.signatures, search, max_tokens),
            dtype=settings.dtype,
            parameters=model.count_params(),
            tokenizer=tokenizer,
            dev=dev_bleu(run, served, whole, settings, log),
        )
        card.write(staging, description)
    return directory / str(version)


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


def _served(directory: Path, sources: list[str]) -> list[str]:
    """The translations of a SavedModel, asked as a server would ask it."""
    translate = tf.saved_model.load(str(directory)).signatures["translate"]
    texts: list[str] = []
    for first in range(0, len(sources), _ROWS):
        answers = translate(text=tf.constant(sources[first : first + _ROWS]))
        texts += [text.decode() for text in answers["translation"].numpy()]
    return texts
