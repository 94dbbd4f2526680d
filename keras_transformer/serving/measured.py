"""BLEU of an export on the dev set of its run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.config import SearchConfig
from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.serving.settings import ExportError, ExportSettings

Log = Callable[[str], None]


def measured(
    run: Run,
    model: keras.Model,
    search: SearchConfig,
    translate: Callable[[list[str]], list[str]],
    settings: ExportSettings,
    log: Log,
) -> dict[str, Any] | None:
    """BLEU of what will be served.

    Args:
        run: The run that is exported.
        model: Its network, with weights in float32.
        search: How the export translates.
        translate: The export itself, lines in and lines out.
        settings: How many sentences, and how much may be lost.
        log: Called with each line of progress.

    Returns:
        What the card says about it; None where no sentence is translated.

    Raises:
        ExportError: Weights in fewer bits lose too much.
    """
    pairs = run.dev_pairs()[: settings.dev_sentences]
    if not pairs:
        return None
    sources, references = [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    language = run.config.data.target
    found = evaluate(translate(sources), references, language)
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
