"""Prefixes, constraints, samples and attention of a Translator with a small random model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer.config import DataConfig, SearchConfig
from keras_transformer.inference.alignment import words_of_pieces
from keras_transformer.inference.attention_file import attention_file
from keras_transformer.inference.grouping import padded_ids
from keras_transformer.inference.inference_functions import sentence_seeds
from keras_transformer.inference.translator import TranslationError, Translator
from keras_transformer.special_tokens import END

LINES = ["A dog runs over the green grass.", "The child sees a red ball.", "", "A dog", "🐶 and"]
PREFIXES = ["Ein Hund läuft", "", "Das", "Das Kind 🐶", "  Zwei  "]
DATA = DataConfig(vocabulary_size=400, joint=False, max_tokens=60)
SAMPLES = {"sample": True, "n_best": 2, "top_p": 0.9, "no_repeat_ngram": 2}
SEARCH = SearchConfig(beam=3, max_extra=12, batch_tokens=100)


@pytest.fixture(scope="module")
def make(model, tokenizer):
    """Return a function that builds translators by search options, each once."""
    made = {}

    def translator(**options) -> Translator:
        key = tuple(sorted(options.items()))
        if key not in made:
            made[key] = Translator(model, tokenizer, dataclasses.replace(SEARCH, **options), DATA)
        return made[key]

    return translator


def same(one, other) -> None:
    assert (one.text, one.finished) == (other.text, other.finished)
    assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)
    assert [item.text for item in one.alternatives] == [item.text for item in other.alternatives]


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param(SAMPLES, marks=pytest.mark.slow)],
    ids=["beam", "samples"],
)
def test_translations_begin_with_their_prefix_in_any_order(make, tokenizer, options):
    translator = make(**options)
    together = translator.translate(LINES, prefixes=PREFIXES)
    clean = [" ".join(prefix.split()) for prefix in PREFIXES]
    assert all(
        item.text.startswith(prefix)
        for line, item, prefix in zip(LINES, together, clean, strict=True)
        if line
    )
    assert together[2].text == "", "a blank line stays blank"
    same(together[1], translator.translate(LINES[1:2])[0])  # a blank prefix leaves it free
    for place in (4, 3, 0):
        (alone,) = translator.translate(LINES[place : place + 1], prefixes=[PREFIXES[place]])
        same(together[place], alone)
    streamed = translator.translate_stream(LINES, 2, prefixes=iter(PREFIXES))
    for one, other in zip(streamed, together, strict=True):
        same(one, other)


def test_prefixes_that_do_not_fit_are_refused_by_number(make):
    translator = make()
    with pytest.raises(TranslationError, match=r"prefix 12: expected at most \d+ tokens .* got 41"):
        translator.translate(["A dog"], prefixes=["🐶" * 10], first_line=12)
    with pytest.raises(TranslationError, match="expected one for each line, got 1 for 2 lines"):
        translator.translate(["a", "b"], prefixes=["x"])
    stream = translator.translate_stream(["a", "b", "c"], 2, prefixes=["x", "", "x", "y"])
    assert len([next(stream) for _ in range(3)]) == 3
    with pytest.raises(TranslationError, match="more than the 3 lines"):
        next(stream)


def test_constraints_of_the_configuration_hold(make, tokenizer):
    translator = make(min_length=8, no_repeat_ngram=1)
    source = padded_ids([[*ids, END] for ids in tokenizer.source.encode(LINES) if ids])
    hypotheses = translator._functions.search(source)
    lengths = hypotheses.lengths[:, 0].numpy()
    assert (lengths > 8).all()
    for tokens, length in zip(hypotheses.tokens[:, 0].numpy(), lengths, strict=True):
        assert len(set(tokens[:length])) == length
    free = make()._functions.search(source)
    assert free.lengths[:, 0].numpy().min() <= 8


def test_samples_depend_on_text_and_seed_alone(make, monkeypatch):
    translator = make(**SAMPLES)
    lines = [LINES[0], LINES[1], LINES[0], "", LINES[4]]
    together = translator.translate(lines)
    same(together[0], together[2])
    assert len(together[0].alternatives) == 1
    for place in (4, 1, 0):
        same(together[place], translator.translate(lines[place : place + 1])[0])
    other = dataclasses.replace(translator.search, seed=2)
    monkeypatch.setattr(translator._functions, "_search", other)
    others = translator.translate(lines)
    assert [item.text for item in others] != [item.text for item in together]


@pytest.mark.slow
def test_one_most_probable_token_is_greedy_search(make):
    greedy = make(beam=1).translate(LINES)
    for one, other in zip(make(sample=True, top_k=1).translate(LINES), greedy, strict=True):
        same(one, other)


def test_seeds_depend_on_tokens_not_on_padding():
    rows = np.array([[5, 6, 3, 0], [5, 6, 3, 0], [5, 6, 7, 3]], np.int32)
    first, second, third = sentence_seeds(rows, 1).tolist()
    assert first == second == sentence_seeds(rows[:1, :3], 1)[0].tolist()
    assert len({*map(tuple, (first, third, sentence_seeds(rows, 2)[0].tolist()))}) == 3
    assert sentence_seeds(np.zeros([0, 4], np.int32), 1).shape == (0, 2)


def test_attention_of_words_and_pieces_in_memory_and_on_disk(make, tokenizer, tmp_path):
    translator = make()
    together = translator.translate(LINES, attention=True)
    assert together[2].attention is None
    assert translator.translate(LINES[:1])[0].attention is None  # not requested
    with attention_file(tmp_path / "all.npz") as add:
        for number, item in enumerate(together, start=1):
            add(number, item.attention)
    saved = np.load(tmp_path / "all.npz")
    for place in (0, 1, 3, 4):
        attention = together[place].attention
        (ids,) = tokenizer.source.encode(LINES[place : place + 1])
        assert attention.source == (*tokenizer.source.pieces(ids), "</s>")
        assert (attention.target[-1] == "</s>") == together[place].finished
        np.testing.assert_allclose(
            attention.weights.sum(1), np.ones(len(attention.target)), rtol=1e-5
        )
        words = together[place].text.split()
        assert [target for _, target in attention.links] == list(range(len(words)))
        assert {source for source, _ in attention.links} <= set(range(len(LINES[place].split())))
        assert len(attention.piece_links) == len(attention.target) - together[place].finished
        (alone,) = translator.translate(LINES[place : place + 1], attention=True)
        np.testing.assert_allclose(alone.attention.weights, attention.weights, atol=1e-5)
        assert (alone.attention.links, alone.attention.target) == (
            attention.links,
            attention.target,
        )
        np.testing.assert_array_equal(saved[f"attention_{place + 1}"], attention.weights)
        assert tuple(saved[f"target_{place + 1}"]) == attention.target


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text("aeHundrt.🐶ß", min_size=1, max_size=6), max_size=6))
def test_each_piece_belongs_to_the_word_that_it_spells(tokenizer, words):
    (ids,) = tokenizer.target.encode([" ".join(words)])
    words_of = words_of_pieces(tokenizer.target, ids)
    assert len(words_of) == len(ids)
    assert sorted(words_of) == list(words_of)
    assert set(words_of) == set(range(len(words)))
    for word, text in enumerate(words):
        own = [token for token, place in zip(ids, words_of, strict=True) if place == word]
        assert tokenizer.target.decode([own])[0].strip() == text
