"""BLEU of an export on the dev set of its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.run import Run
from keras_transformer.serving.settings import ExportError, ExportSettings

Log = Callable[[str], None]
Translate = Callable[[list[str]], list[str]]
"""Lines in, their translations out."""


def dev_bleu(
    run: Run, translate: Translate, whole: Translate, settings: ExportSettings, log: Log
) -> dict[str, Any] | None:
    """BLEU of what will be served.

    Args:
        run: The run that is exported.
        translate: The export.
        whole: The same search with weights in float32; asked only where those of the export
            have fewer bits.
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
    log(f"translating {len(pairs)} sentences of the dev set")
    found = evaluate(translate(sources), references, language)
    dev = {"sentences": len(pairs), "bleu": found.bleu, "signature": found.bleu_signature}
    log(f"dev BLEU {found.bleu:.2f} on {len(pairs)} sentences")
    if settings.dtype == "float32":
        return dev
    best = evaluate(whole(sources), references, language)
    log(f"dev BLEU {best.bleu:.2f} with weights in float32")
    if best.bleu - found.bleu > settings.max_bleu_loss:
        raise ExportError(
            f"dtype {settings.dtype}: expected at most {settings.max_bleu_loss} dev BLEU less than "
            f"in float32, got {found.bleu:.2f} for {best.bleu:.2f}; nothing was written "
            "(--max_bleu_loss allows more)"
        )
    return dev | {"float32_bleu": best.bleu}
