from __future__ import annotations

import math

import pytest

from keras_transformer.training.scores import (
    format_scores,
    is_checkpoint,
    perplexity,
    selection_score,
)


def test_perplexity() -> None:
    assert perplexity(0.0) == 1.0
    assert perplexity(math.log(8)) == pytest.approx(8)
    assert perplexity(1e6) == math.inf


def test_the_best_weights_have_most_bleu_or_least_loss() -> None:
    scores = {"dev_loss": 2.5, "dev_bleu": 30.0}
    assert selection_score(scores) == (30.0, -2.5)
    assert selection_score(scores, "loss") == (-2.5, -2.5)
    assert selection_score({"dev_loss": 2.5}) == (-2.5, -2.5)  # nothing is translated


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ((3.0, 30.02), (2.0, 30.01)),
        ((2.0, 30.0), (2.1, 30.0)),
        ((2.0, 30.001), (2.1, 30.004)),  # equal to two decimals
        ((8.9, 0.0), (9.0, 0.0)),
        ((8.9, 0.0), (9.0, 0.83)),  # smoothing and chance
        ((9.0, 1.0), (8.9, 0.99)),
        ((1.0, 100.0), (1.1, 100.0)),
        ((9.0, 0.0), (math.nan, 50.0)),
        ((9.0, 0.0), (math.inf, 50.0)),
        ((9.0, 0.0), (None, 50.0)),  # NaN or infinity in metrics.jsonl
    ],
)
def test_dev_loss_decides_where_bleu_says_nothing(
    better: tuple[float, float], worse: tuple[float, float]
) -> None:
    first, second = (
        selection_score(dict(zip(("dev_loss", "dev_bleu"), pair, strict=True)))
        for pair in (better, worse)
    )
    assert first > second


def test_scores_as_text() -> None:
    scores = {"dev_loss": 1.324, "dev_perplexity": 2.0, "dev_bleu": 40.0}
    assert format_scores(scores) == "dev loss 1.32, dev perplexity 2.00, dev BLEU 40.00"


def test_averages_are_no_checkpoints() -> None:
    assert is_checkpoint({"step": 6, "dev_loss": 1.0})
    assert not is_checkpoint({"step": 6, "averaged": 2})
    assert not is_checkpoint({"step": 6, "ema_decay": 0.9})
