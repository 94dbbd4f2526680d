"""Scores of the best weights of a run on the whole dev set."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.config import SearchConfig
from keras_transformer.data.pairs import Pair
from keras_transformer.evaluation.metrics import bleu, evaluate
from keras_transformer.evaluation.tokenization import choose_tokenization
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run

LENGTHS = (10, 15, 20, 25, 30)
"""Upper limits of the buckets of source tokens, end token included; the last has none."""
MAX_TOKENS = 1_000
"""Longest source in tokens: the limit of training must not truncate the dev set."""
MIN_BUCKET = 5
"""Sentences that a bucket needs for a BLEU score."""


def final_scores(run: Run, searches: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Translate the dev set with the best weights, and score the translations.

    Args:
        run: The run.
        searches: The section ``search`` of each job, by its key.

    Returns:
        The scores of each job, by its key; empty if the run has no weights. Losses are in nats,
        ``seconds`` is the time of the search.
    """
    if not run.best_weights.exists():
        return {}
    model, tokenizer, pairs = run.model(), run.tokenizer(), run.dev_pairs()
    data = dataclasses.replace(run.config.data, max_tokens=MAX_TOKENS, on_long="cut")
    loss: dict[str, float] = {}
    found = {}
    for key, fields in searches.items():
        search = SearchConfig(**fields)
        translator = Translator(model, tokenizer, search, data, workers=1, fixed=True)
        loss = loss or _loss(translator, pairs)
        start = time.perf_counter()
        translations = translator.translate([pair.source for pair in pairs])
        seconds = time.perf_counter() - start
        texts = [translation.text for translation in translations]
        found[key] = {
            **loss,
            **_scores(run, texts, pairs),
            "finished": float(np.mean([translation.finished for translation in translations])),
            "empty": sum(not text for text in texts),
            "seconds": seconds,
            "by_length": _by_length(run, translator, texts, pairs),
        }
    return found


def _loss(translator: Translator, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return the unsmoothed negative log-likelihood of the references, in nats."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    scores = translator.score(sources, targets)
    total = -sum(score.log_probability for score in scores)
    tokens = sum(score.tokens for score in scores)
    characters = sum(len(target) for target in targets)
    return {
        "nll_per_token": total / tokens,
        "nll_per_character": total / characters,
        "characters_per_token": characters / tokens,
    }


def _scores(run: Run, texts: Sequence[str], pairs: Sequence[Pair]) -> dict[str, Any]:
    references = [pair.target for pair in pairs]
    scores = evaluate(
        texts, [references], run.config.data.target, tokenize=run.config.train.bleu_tokenizer
    )
    names = ("bleu", "chrf", "length_ratio", "brevity_penalty", "sentences", "bleu_signature")
    return {name: getattr(scores, name) for name in names}


def _by_length(
    run: Run, translator: Translator, texts: Sequence[str], pairs: Sequence[Pair]
) -> list[dict[str, Any]]:
    """Return BLEU and length ratio of each bucket of source lengths, in tokens."""
    tokenizer = translator.tokenizer
    encoded = tokenizer.source.encode([pair.source for pair in pairs])
    lengths = [len(translator.source_tokens(ids)) for ids in encoded]
    name = choose_tokenization(
        run.config.data.target,
        [pair.target for pair in pairs],
        run.config.train.bleu_tokenizer,
    ).name
    buckets = np.searchsorted(LENGTHS, lengths)
    found = []
    for bucket in range(len(LENGTHS) + 1):
        rows = [int(row) for row in np.flatnonzero(buckets == bucket)]
        if len(rows) < MIN_BUCKET:
            continue
        hypotheses = [texts[row] for row in rows]
        references = [pairs[row].target for row in rows]
        ratio = sum(map(len, hypotheses)) / max(sum(map(len, references)), 1)
        found.append(
            {
                "longest": LENGTHS[bucket] if bucket < len(LENGTHS) else max(lengths),
                "sentences": len(rows),
                "bleu": bleu(hypotheses, [references], name),
                "length_ratio": ratio,  # in characters
            }
        )
    return found
