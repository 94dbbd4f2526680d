"""Paired bootstrap: equal systems, clearly better ones, and what is refused."""

from __future__ import annotations

import pytest

from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.evaluation.significance import paired_bootstrap

REFERENCES = [[f"the {n} dogs run over the green grass" for n in range(60)]]
GOOD = list(REFERENCES[0])
POOR = [line.replace("green grass", "grey street") for line in GOOD]


def test_a_system_is_not_better_than_itself() -> None:
    for comparison in paired_bootstrap(POOR, POOR, REFERENCES, "en", resamples=200):
        assert comparison.delta == 0
        assert comparison.p_value == 1.0


def test_a_clearly_better_system_is_significant() -> None:
    """No resample has a smaller difference than none: p is 1 / (resamples + 1)."""
    bleu, chrf, ter = paired_bootstrap(GOOD, POOR, REFERENCES, "en", resamples=200)

    assert [bleu.metric, chrf.metric, ter.metric] == ["bleu", "chrf", "ter"]
    assert bleu.delta > 20
    assert ter.delta == pytest.approx(-100 * 2 / 8)
    for comparison in (bleu, chrf, ter):
        assert comparison.p_value == pytest.approx(1 / 201)


def test_one_lucky_sentence_is_not_significant() -> None:
    others = [GOOD[0], *POOR[1:30], *GOOD[30:]]
    hypotheses = [*POOR[:30], GOOD[30], *GOOD[31:]]

    bleu = paired_bootstrap(hypotheses, others, REFERENCES, "en", resamples=200)[0]

    assert bleu.delta < 0
    assert bleu.p_value > 0.05
    assert bleu.confidence > 1


def test_scores_equal_evaluate_and_swap_with_the_systems() -> None:
    first = paired_bootstrap(GOOD[:30] + POOR[30:], POOR, REFERENCES, "en", resamples=50)[0]
    second = paired_bootstrap(POOR, GOOD[:30] + POOR[30:], REFERENCES, "en", resamples=50)[0]

    assert first.score == pytest.approx(evaluate(GOOD[:30] + POOR[30:], REFERENCES, "en").bleu)
    assert first.other == pytest.approx(evaluate(POOR, REFERENCES, "en").bleu)
    assert second.delta == pytest.approx(-first.delta)
    assert "bs:50" in first.signature
    assert "seed:12345" in first.signature


def test_the_draw_is_seeded() -> None:
    arguments = (GOOD[:30] + POOR[30:], POOR, REFERENCES, "en")

    assert paired_bootstrap(*arguments, resamples=50) == paired_bootstrap(*arguments, resamples=50)


def test_outputs_that_differ_in_number_are_refused_with_both_counts() -> None:
    with pytest.raises(EvaluationError, match="have 60 lines, the other system's 59"):
        paired_bootstrap(GOOD, POOR[:-1], REFERENCES, "en")
    with pytest.raises(EvaluationError, match="have 2 lines, the reference has 60"):
        paired_bootstrap(GOOD[:2], POOR[:2], REFERENCES, "en")


@pytest.mark.parametrize("seed", ["abc", "-1", "1.5", ""])
def test_a_wrong_seed_is_named(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(EvaluationError, match=f"SACREBLEU_SEED: expected .*, got '{seed}'$"):
        paired_bootstrap(GOOD, POOR, REFERENCES, "en")
    for valid in ("7", "None"):
        monkeypatch.setenv("SACREBLEU_SEED", valid)
        paired_bootstrap(GOOD[:3], POOR[:3], [REFERENCES[0][:3]], "en", resamples=2)
