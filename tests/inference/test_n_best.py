"""N-best lists: distinct texts with their own scores, the same in Python and in a graph."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.config import SearchConfig
from keras_transformer.inference.grouping import padded_ids
from keras_transformer.inference.n_best import distinct_indices, read_translations, select_distinct
from keras_transformer.inference.search.generate import generate
from keras_transformer.inference.search.hypotheses import NEG_INF, Hypotheses
from keras_transformer.serving.saved_model.graph_tokenizer import GraphTokenizer
from keras_transformer.special_tokens import END

WORDS = tf.constant(["", "", "", "", "ab", "a", "b", " b", "c"])


class Ambiguous:
    """A tokenizer that spells "ab" as one token, as "a" and "b", and with a space as " b"."""

    space_mark = ""

    def decode(self, ids):
        return [
            "".join(WORDS[token].numpy().decode() for token in row).replace(" ", "") for row in ids
        ]

    @staticmethod
    def graph_decode(tokens: tf.Tensor) -> tf.Tensor:
        """(B, M, L) ids to (B, M) texts."""
        return tf.strings.regex_replace(
            tf.strings.reduce_join(tf.gather(WORDS, tokens), 2), " ", ""
        )


def lists(hypotheses: Hypotheses, tokenizer, decode, n_best: int):
    """Return the lists of each sentence in Python, and those of the graph."""
    search = SearchConfig(beam=n_best, n_best=n_best)
    python = [
        [(item.text, item.score), *item.alternatives]
        for item in read_translations(hypotheses, tokenizer, search)
    ]
    texts, scores = tf.function(select_distinct, autograph=False)(
        decode(hypotheses.tokens), hypotheses.scores, hypotheses.lengths, n_best
    )
    graph = [
        [(text.decode(), score) for text, score in zip(*row, strict=True)]
        for row in zip(texts.numpy(), scores.numpy(), strict=True)
    ]
    return python, graph


def check_lists(python, graph, n_best: int) -> None:
    """Check that both agree, and that the graph fills unused places with ""."""
    for own, places in zip(python, graph, strict=True):
        free = n_best - len(own)
        assert [text for text, _ in places] == [text for text, _ in own] + [""] * free
        np.testing.assert_array_equal([score for _, score in places][len(own) :], [NEG_INF] * free)
        np.testing.assert_allclose([s for _, s in places][: len(own)], [s for _, s in own])


def test_distinct_indices_by_hand():
    texts = ["我爱你。", "我爱你。", "我爱您。", "我爱你。", "爱你。", "我爱您。"]
    assert distinct_indices(texts, 2) == [0, 2]
    assert distinct_indices(texts, 9) == [0, 2, 4]
    assert distinct_indices(["a"], 1) == [0]


def test_two_segmentations_of_one_text_by_hand(tokenizer):
    target = tokenizer.target
    (whole,), (other,) = target.encode(["Hund"]), target.encode(["Ball"])
    spelled = [*whole[:-1], END + 1 + ord("d")]  # the last letter as a byte piece
    assert target.pieces(whole[-1:]) == ["d"]
    assert whole != spelled
    assert target.decode([spelled]) == ["Hund"]
    rows = [[*ids, END] for ids in (whole, spelled, other, whole)]
    hypotheses = Hypotheses(
        tokens=tf.constant(padded_ids([*rows[:3], [], *rows[2:], [], []]).reshape(2, 4, -1)),
        lengths=tf.constant([[*map(len, rows[:3]), 0], [*map(len, rows[2:]), 0, 0]]),
        scores=tf.constant([[-1.0, -1.5, -2.0, NEG_INF], [-0.5, -0.75, NEG_INF, NEG_INF]]),
        log_probabilities=tf.zeros([2, 4]),
        finished=tf.constant([[True, True, True, False], [True, True, False, False]]),
    )
    python, graph = lists(hypotheses, target, GraphTokenizer(target, 60).decode, 3)
    assert python == [[("Hund", -1.0), ("Ball", -2.0)], [("Ball", -0.5), ("Hund", -0.75)]]
    check_lists(python, graph, 3)


def test_an_empty_best_hypothesis_is_kept():
    hypotheses = Hypotheses(
        tokens=tf.zeros([1, 2, 0], tf.int32),
        lengths=tf.zeros([1, 2], tf.int32),
        scores=tf.constant([[0.0, NEG_INF]]),
        log_probabilities=tf.constant([[0.0, NEG_INF]]),
        finished=tf.constant([[False, False]]),
    )
    python, graph = lists(hypotheses, Ambiguous(), Ambiguous.graph_decode, 2)
    assert python == [[("", 0.0)]]
    check_lists(python, graph, 2)


def test_samples_may_repeat():
    hypotheses = Hypotheses(
        tokens=tf.constant([[[4, END, 0], [5, 6, END]]]),
        lengths=tf.constant([[2, 3]]),
        scores=tf.constant([[-1.0, -2.0]]),
        log_probabilities=tf.constant([[-1.0, -2.0]]),
        finished=tf.constant([[True, True]]),
    )
    search = SearchConfig(sample=True, n_best=2)
    (translation,) = read_translations(hypotheses, Ambiguous(), search)
    assert (translation.text, translation.alternatives) == ("ab", (("ab", -2.0),))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    n_best=st.integers(2, 4),
    more=st.integers(0, 2),
    max_extra=st.integers(1, 5),
    end_bias=st.sampled_from([-1.0, 1.0, 3.0]),
)
def test_texts_differ_and_have_their_best_forced_scores(
    scripted, seed, n_best, more, max_extra, end_bias
):
    model, keys = scripted(seed, vocabulary=9, end_bias=end_bias), [1, 2, 3]
    search = SearchConfig(beam=n_best + more, n_best=n_best, max_extra=max_extra)
    source = tf.constant([[7, 7, END], [7, END, 0], [END, 0, 0]])  # limits 2, 1 and 0 and more

    def start(source, width):
        return model.step, model.start(keys, width)

    hypotheses = generate(start, source, search)
    python, graph = lists(hypotheses, Ambiguous(), Ambiguous.graph_decode, n_best)
    check_lists(python, graph, n_best)
    for sentence, own in enumerate(python):
        assert len({text for text, _ in own}) == len(own) > 0
        lengths = hypotheses.lengths[sentence].numpy()
        rows = [
            (tuple(tokens[:length].tolist()), float(score), bool(finished))
            for tokens, length, score, finished in zip(
                hypotheses.tokens[sentence].numpy(),
                lengths,
                hypotheses.scores[sentence].numpy(),
                hypotheses.finished[sentence].numpy(),
                strict=True,
            )
            if length
        ]
        # A place is empty only if there are no more distinct texts.
        every = Ambiguous().decode([tokens for tokens, _, _ in rows])
        assert len(own) == min(len(set(every)), n_best)
        ends = []
        for text, score in own:
            tokens, best, finished = rows[every.index(text)]
            assert score == best
            forced = model.forced(keys[sentence], tokens) / ((5 + len(tokens)) / 6) ** search.alpha
            assert score == pytest.approx(forced, rel=1e-4, abs=1e-4)
            ends.append((-finished, -score))
        assert ends == sorted(ends), "finished ones first, then by score"


def test_one_best_is_the_first_of_several(scripted):
    model = scripted(5, vocabulary=9, end_bias=1.0)
    source = tf.constant([[7, 7, 7, END]] * 4)

    def best(n_best):
        def start(source, width):
            return model.step, model.start([1, 2, 3, 4], width)

        return generate(start, source, SearchConfig(beam=4, n_best=n_best, max_extra=6))

    assert best(1).lengths.shape == (4, 1)
    assert best(3).lengths.shape == (4, 6)
    np.testing.assert_array_equal(best(1).scores[:, 0], best(3).scores[:, 0])


def test_sampling_needs_seeds(scripted):
    model = scripted(5, vocabulary=9)
    with pytest.raises(ValueError, match="seeds: expected"):
        generate(
            lambda source, width: (model.step, model.start([1], width)),
            tf.constant([[END]]),
            SearchConfig(sample=True),
        )
