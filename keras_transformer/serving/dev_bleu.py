"""BLEU of an export on the dev set of its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_transformer.evaluation.metrics import MIN_BLEU, Scores, chrf, evaluate
from keras_transformer.evaluation.tokenization import choose_tokenization
from keras_transformer.run import Run
from keras_transformer.serving.settings import ExportError, ExportSettings

MIN_AGREEMENT = 90.0
"""Least chrF of the export's translations against those with float32 weights, where BLEU says
nothing."""

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
        if settings.dev_sentences:
            log("the run has no dev set: BLEU is not measured")
        return None
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    language = run.config.data.target
    tokenization = choose_tokenization(language, references, run.config.train.bleu_tokenizer)
    if tokenization.note:
        log(tokenization.note)

    def score(translations: list[str]) -> Scores:
        return evaluate(translations, [references], language, tokenize=tokenization.name)

    log(f"translating {len(pairs)} sentences of the dev set")
    translations = translate(sources)
    exported = score(translations)
    dev = {"sentences": len(pairs), "bleu": exported.bleu, "signature": exported.bleu_signature}
    log(f"dev BLEU {exported.bleu:.2f} on {len(pairs)} sentences")
    if settings.dtype == "float32":
        return dev
    float32_translations = translate_float32(sources)
    float32 = score(float32_translations)
    log(f"dev BLEU {float32.bleu:.2f} with weights in float32")
    dev["float32_bleu"] = float32.bleu
    if float32.bleu < MIN_BLEU:
        # Without BLEU nothing can be lost of it, whatever the weights.
        dev["float32_agreement"] = _agreement(translations, float32_translations, settings, log)
    elif float32.bleu - exported.bleu > settings.max_bleu_loss:
        raise ExportError(
            f"dtype {settings.dtype}: expected at most {settings.max_bleu_loss} dev BLEU less than "
            f"in float32, got {exported.bleu:.2f} for {float32.bleu:.2f}; nothing was written "
            "(--max_bleu_loss allows more)"
        )
    return dev


def _agreement(
    translations: list[str], float32_translations: list[str], settings: ExportSettings, log: Log
) -> float:
    """Return chrF of the translations against those with float32 weights.

    Raises:
        ExportError: They differ too much, and ``max_bleu_loss`` does not allow any loss.
    """
    agreement = chrf(translations, float32_translations)
    log(
        f"dev BLEU below {MIN_BLEU:g} says nothing about the weights; the translations agree with "
        f"those in float32 by chrF {agreement:.2f}"
    )
    if agreement < MIN_AGREEMENT and settings.max_bleu_loss < 100:
        raise ExportError(
            f"dtype {settings.dtype}: expected translations that agree with those in float32 by "
            f"chrF {MIN_AGREEMENT:g} or more, because dev BLEU in float32 is below "
            f"{MIN_BLEU:g}, got {agreement:.2f}; nothing was written (train the run longer, or "
            "--max_bleu_loss 100 allows any loss)"
        )
    return agreement
