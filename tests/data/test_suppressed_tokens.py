"""Pieces that are never generated, by name."""

from __future__ import annotations

import pytest

from keras_transformer.config import ConfigError, SearchConfig
from keras_transformer.data.suppressed_tokens import suppressed_tokens


class Pieces:
    """A vocabulary of six pieces."""

    names = ("<pad>", "<unk>", "<s>", "</s>", "▁>>deu<<", "a")
    size = len(names)

    def pieces(self, ids):
        return [self.names[token] for token in ids]


def test_ids_in_the_order_of_the_configuration() -> None:
    search = SearchConfig(suppress=("a", "▁>>deu<<"))
    assert suppressed_tokens(search, Pieces()) == (5, 4)
    assert suppressed_tokens(SearchConfig(), Pieces()) == ()


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (["a", ">>deu<<", "b"], r"search\.suppress: .*vocabulary.*, got '>>deu<<', 'b'$"),
        (list("bcdefg"), r"got 'b', 'c', 'd', 'e', 'f', \.\.\.$"),
        (["</s>"], r"search\.suppress: expected pieces other than the end token </s>"),
    ],
)
def test_pieces_that_cannot_be_suppressed_are_named(pieces, message) -> None:
    with pytest.raises(ConfigError, match=message):
        suppressed_tokens(SearchConfig(suppress=pieces), Pieces())
