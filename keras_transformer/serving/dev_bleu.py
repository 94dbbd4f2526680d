"""BLEU of an export on the dev set of its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.run import Run
from keras_transformer.serving.settings import ExportError, ExportSettings

Log = Callable[[str], None]
Translate = Callable[[list[str]], list[str]]
"""Function from lines to their translations."""


def dev_bleu(
    run: Run,
    translate: Translate,
    translate_float32: Translate,
    settings: ExportSettings,
    log: Log,
) -> dict[str, Any] | None:
    """Measure BLEU of an export; for other than float32 weights, compare it with float32.

    Args:
        run: The exported run.
        translate: The export.
        translate_float32: The same search with float32 weights; not called for dtype float32.
        settings: ``dev_sentences``, ``dtype`` and ``max_bleu_loss``.
        log: Called with each line of progress.

    Returns:
        The entry ``dev`` of the card, or None if no sentence is translated.

    Raises:
        ExportError: The stored weights lose too much.
    """
    pairs = run.dev_pairs()[: settings.dev_sentences]
    if not pairs:
        return None
    sources, references = [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    language = run.config.data.target
    log(f"translating {len(pairs)} sentences of the dev set")
    exported = evaluate(translate(sources), references, language)
    dev = {"sentences": len(pairs), "bleu": exported.bleu, "signature": exported.bleu_signature}
    log(f"dev BLEU {exported.bleu:.2f} on {len(pairs)} sentences")
    if settings.dtype == "float32":
        return dev
    float32 = evaluate(translate_float32(sources), references, language)
    log(f"dev BLEU {float32.bleu:.2f} with weights in float32")
    if float32.bleu - exported.bleu > settings.max_bleu_loss:
        raise ExportError(
            f"dtype {settings.dtype}: expected at most {settings.max_bleu_loss} dev BLEU less than "
            f"in float32, got {exported.bleu:.2f} for {float32.bleu:.2f}; nothing was written "
            "(--max_bleu_loss allows more)"
        )
    return dev | {"float32_bleu": float32.bleu}
