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
    assert selection_score(scores) == 30.0
    assert selection_score(scores, "loss") == -2.5
    assert selection_score({"dev_loss": 2.5}) == -2.5  # nothing is translated


def test_scores_as_text() -> None:
    scores = {"dev_loss": 1.324, "dev_perplexity": 2.0, "dev_bleu": 40.0}
    assert format_scores(scores) == "dev loss 1.32, dev perplexity 2.00, dev BLEU 40.00"


def test_averages_are_no_checkpoints() -> None:
    assert is_checkpoint({"step": 6, "dev_loss": 1.0})
    assert not is_checkpoint({"step": 6, "averaged": 2})
    assert not is_checkpoint({"step": 6, "ema_decay": 0.9})
