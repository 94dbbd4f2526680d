"""Frequent tokens of a vocabulary."""

from __future__ import annotations

from keras_transformer.data.word_tokenizer import Words
from keras_transformer.visualize.embedding_neighbours import frequent_tokens


def test_frequent_tokens_are_the_first_words_of_several_letters() -> None:
    assert frequent_tokens(Words(["a", "the", ",", "b2", "old", "men"]), 2) == [5, 8]


def test_a_vocabulary_of_characters_has_frequent_tokens_too() -> None:
    assert frequent_tokens(Words("ab,"), 2) == [4, 5]
