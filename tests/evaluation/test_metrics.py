"""BLEU, chrF and TER against values worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.evaluation import metrics
from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.evaluation.tokenization import choose_tokenization


def test_bleu_of_a_short_output_worked_out_by_hand() -> None:
    """Matches 5/5, 3/4, 2/3, 1/2 of the n-grams; 5 words for 6 cost exp(1 - 6/5).

    Hypothesis a b c d f, reference a b c d e f: the bigram d f, the trigram c d f and the
    4-gram b c d f are not in the reference.
    """
    scores = evaluate(["a b c d f"], [["a b c d e f"]], "en")

    precisions = (5 / 5) * (3 / 4) * (2 / 3) * (1 / 2)
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 6 / 5) * precisions ** (1 / 4))
    assert scores.brevity_penalty == pytest.approx(math.exp(-0.2))
    assert scores.length_ratio == pytest.approx(5 / 6)


def test_bleu_sums_matches_over_the_corpus() -> None:
    """The first sentence matches in all of 4, 3, 2, 1 n-grams, the second in none of 5, 4, 3, 2."""
    references = [["a b c d", "p q r s t"]]
    scores = evaluate(["a b c d", "v w x y z"], references, "en")

    precisions = (4 / 9) * (3 / 7) * (2 / 5) * (1 / 3)
    assert scores.bleu == pytest.approx(100 * precisions ** (1 / 4))
    assert scores.sentences == 2


def test_ter_is_edits_over_reference_words() -> None:
    """One word of six is missing, and one of two is another: 2 edits in 8 words."""
    scores = evaluate(["a b c d f", "x z"], [["a b c d e f", "x y"]], "en")

    assert scores.ter == pytest.approx(100 * 2 / 8)


def test_ter_of_chinese_counts_characters() -> None:
    """我爱你 for 我爱他: one of three characters; as one word it would be 100."""
    assert evaluate(["我爱你"], [["我爱他"]], "zh").ter == pytest.approx(100 / 3)


def test_chrf_worked_out_by_hand() -> None:
    """Hypothesis ab, reference ac, orders above 2 are longer than the text and do not count.

    1-grams: precision 1/2, recall 1/2; 2-grams: 0. Means 1/4 and 1/4, so F2 is 1/4.
    """
    assert evaluate(["ab"], [["ac"]], "en").chrf == pytest.approx(25.0)


def test_case_counts_unless_lowercase_is_asked_for() -> None:
    hypotheses, references = ["Ein Hund läuft heute ."], [["ein hund läuft heute ."]]

    cased = evaluate(hypotheses, references, "de")
    lowered = evaluate(hypotheses, references, "de", lowercase=True)

    assert cased.bleu < 90
    assert "case:mixed" in cased.bleu_signature
    assert "case:mixed" in cased.ter_signature
    assert lowered.bleu == pytest.approx(100)
    assert lowered.chrf == pytest.approx(100)
    assert lowered.ter == 0
    assert "case:lc" in lowered.bleu_signature


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("de", "13a"),
        ("fr", "13a"),
        ("zh", "zh"),
        ("zh-TW", "zh"),
        ("zh_CN", "zh"),
        ("ja", "ja-mecab"),
    ],
)
def test_signature_names_the_tokenizer_of_the_language(language: str, tokenizer: str) -> None:
    signature = evaluate(["a b c d"], [["a b c d"]], language).bleu_signature

    assert f"|tok:{tokenizer}" in signature
    assert "version:2." in signature


def test_chinese_is_compared_by_character() -> None:
    """我爱你们 for 我爱我们: 3 of 4 characters match; 我爱, 们 pairs 我爱 only: 1 of 3."""
    score = metrics.metrics(choose_tokenization("zh"))["bleu"].corpus_score(
        ["我爱你们"], [["我爱我们"]]
    )

    assert score.counts[:2] == [3, 1]
    assert score.totals[:2] == [4, 3]


def test_korean_without_its_tokenizer_names_what_to_install() -> None:
    try:
        import mecab_ko  # noqa: F401
    except ImportError:
        with pytest.raises(EvaluationError, match=r"pip install 'sacrebleu\[ko\]'"):
            evaluate(["나는 너를 사랑해"], [["나는 너를 사랑해"]], "ko")
    else:
        assert "tok:ko-mecab" in evaluate(["가"], [["가"]], "ko").bleu_signature


def test_unknown_tokenizer_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(EvaluationError, match=r"tokenize: expected one of .*13a.*, got 'moses9'"):
        evaluate(["a"], [["a"]], "en", tokenize="moses9")


def test_the_best_matching_reference_counts() -> None:
    references = [["a b c d", "p q r s"], ["x x x x", None]]

    scores = evaluate(["x x x x", "p q r s"], references, "en")

    assert scores.bleu == pytest.approx(100)
    assert scores.ter == 0


def test_counts_that_differ_are_refused_with_both() -> None:
    with pytest.raises(EvaluationError, match="translations have 2 lines, the reference has 3"):
        evaluate(["a", "b"], [["a", "b", "c"]], "en")
    with pytest.raises(EvaluationError, match="have 1 lines, reference 2 has 2"):
        evaluate(["a"], [["a"], ["a", "b"]], "en")


def test_nothing_to_evaluate_is_refused() -> None:
    with pytest.raises(EvaluationError, match="no sentences"):
        evaluate([], [[]], "en")
    with pytest.raises(EvaluationError, match="at least one"):
        evaluate(["a"], [], "en")


def test_empty_translations_score_nothing_and_do_not_crash() -> None:
    scores = evaluate(["", ""], [["a b", "c"]], "en")

    assert (scores.bleu, scores.chrf, scores.ter) == (0, 0, 100)


def test_chrf_of_equal_translations_is_100_even_if_all_are_blank() -> None:
    assert metrics.chrf(["", ""], ["", ""]) == 100
    assert metrics.chrf(["ab"], ["ac"]) == pytest.approx(25.0)  # as above
    with pytest.raises(EvaluationError, match="have 1 lines, the reference has 2"):
        metrics.chrf(["a"], ["a", "b"])


@given(st.lists(st.text(alphabet="ab c.", min_size=1), min_size=1, max_size=5))
def test_the_reference_itself_is_never_beaten(lines: list[str]) -> None:
    """TER 0, and BLEU of the quick function equals that of the full one."""
    scores = evaluate(lines, [lines], "en")

    assert scores.ter == 0
    assert metrics.bleu(lines, [lines], "13a") == scores.bleu


def test_references_are_grouped_by_sentence() -> None:
    sources, references = metrics.group_references(
        [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("a", "5")]
    )

    assert sources == ["a", "b", "c"]
    assert references == [["1", "2", "4"], ["3", None, None], ["5", None, None]]
    assert metrics.group_references([]) == ([], [])


@pytest.mark.parametrize("language", ["de", "fr"])
def test_raw_references_are_tokenised_to_the_published_ones(corpora: Path, language: str) -> None:
    folder = corpora / "multi30k"
    raw = (folder / f"test_2016_flickr.{language}").read_text(encoding="utf-8").split("\n")
    published = (folder / f"test_2016_flickr.lc.norm.tok.{language}").read_text(encoding="utf-8")
    tokenized = metrics.moses_tokenizer(language, lowercase=True)

    assert [tokenized(line) for line in raw] == published.split("\n")
