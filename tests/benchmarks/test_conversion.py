"""Parts of the conversion proof that need no other system."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    for folder in (FOLDER, FOLDER / "foreign"):
        monkeypatch.syspath_prepend(str(folder))
    for name in ("answers", "corpus", "peers", "pieces", "proof", "contestants"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import answers
    import corpus
    import pieces
    import proof

    return {"answers": answers, "corpus": corpus, "pieces": pieces, "proof": proof}


def test_codes_join_the_most_frequent_pair_first(modules: Any) -> None:
    pieces = modules["pieces"]
    # a b: three times; then ab y</w>: twice, ab x</w> and b x</w> once.
    codes = pieces.learn_codes(["abx aby aby bx"], 2)
    assert codes.pairs == [("a", "b"), ("ab", "y</w>")]
    assert pieces.Codes([("a", "b")]).apply("abx cab") == ["ab", "x</w>", "c", "a", "b</w>"]
    assert pieces.continued(["ab", "x</w>", "c</w>"]) == ["ab@@", "x", "c"]


def test_the_last_mark_of_a_sentence_is_a_token(modules: Any) -> None:
    assert modules["pieces"].spaced("The cat sees it.") == "The cat sees it ."
    assert modules["pieces"].spaced("No mark") == "No mark"


def test_made_up_pairs_are_different_and_repeatable(modules: Any) -> None:
    pairs = modules["corpus"].made_up(300, seed=1)
    assert len(set(pairs)) == 300
    assert pairs == modules["corpus"].made_up(300, seed=1)
    assert all(source[-1] == target[-1] for source, target in pairs)


def test_pairs_are_read_as_they_were_written(modules: Any, tmp_path: Path) -> None:
    corpus, pairs = modules["corpus"], [("A.", "Ä."), ("B!", "ß!")]
    corpus.write_pairs(tmp_path, "train", pairs)
    settings = {"text": str(tmp_path)}
    assert corpus.read_pairs(settings, "train") == pairs
    corpus.write_pairs(tmp_path, "test", pairs[:1])
    corpus.write_words(settings, lambda side, line: [str(side), *line])
    assert (tmp_path / "words.train.target").read_text(encoding="utf-8") == "1 Ä .\n1 ß !\n"


def test_answers_are_json_and_complete(modules: Any, tmp_path: Path) -> None:
    answers = modules["answers"]
    one = answers.hypothesis(["a"], [-0.5, -1.25], -0.875, True)
    answers.write(tmp_path / "a.json", {"n_best": [[one]], "search": {"beam": 4}})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {
        "n_best": [[{"tokens": ["a"], "log_probs": [-0.5, -1.25], "score": -0.875, "ended": True}]],
        "search": {"beam": 4},
    }
    with pytest.raises(ValueError, match="1 tokens"):  # the number of END is missing
        answers.hypothesis(["a"], [-0.5], -0.5, True)


def test_loss_is_in_nats_per_token(modules: Any) -> None:
    assert modules["proof"].loss("-3.0\t2\n-1.5\t1\n") == pytest.approx(1.5)
