"""Tokenization in a graph, compared with Python's."""

from __future__ import annotations

import pytest
import tensorflow as tf

from keras_transformer.inference.plain_text import plain
from keras_transformer.serving.saved_model.graph_tokenizer import GraphTokenizer
from keras_transformer.special_tokens import END, source_tokens

TEXTS = [
    "A dog runs over the green grass.",
    "naïve café — cafe\u0301 ＦＵＬＬ ｗｉｄｔｈ",
    "emoji 🐶👩‍👩‍👧 and 中文，日本語、العربية עברית",
    "<s> </s> <pad> <unk> <0x0A> ▁",
    "\x00\x07 control\tcharacters\x85 and\u2028separators",
    "x" * 500,
    "",
    " \t\u3000\u200b",
]


@pytest.fixture(scope="module")
def pieces(small_run):
    return small_run.tokenizer().source


@pytest.mark.parametrize("limit", [3, 60, 1000])
def test_ids_are_those_of_python_cut_with_the_end_kept(pieces, limit) -> None:
    found = GraphTokenizer(pieces, limit).encode(tf.constant(TEXTS))
    whole = pieces.encode(TEXTS)
    expected = [[*ids[: limit - 1], END] for ids in whole]
    for row, length, ids in zip(found.ids.numpy(), found.lengths.numpy(), expected, strict=True):
        assert row[:length].tolist() == ids
        assert not row[length:].any()
    assert found.cut.numpy().tolist() == [len(ids) > limit - 1 for ids in whole]


@pytest.mark.parametrize("limit", [3, 60, 1000])
def test_rows_without_end(pieces, limit) -> None:
    found = GraphTokenizer(pieces, limit).encode(tf.constant(TEXTS), end=False)
    whole = pieces.encode(TEXTS)
    expected = [source_tokens(ids[:limit], False) for ids in whole]
    assert expected[-2:] == [[END], [END]]  # blank
    assert found.ids.shape[1] == max(map(len, expected))
    for row, length, ids in zip(found.ids.numpy(), found.lengths.numpy(), expected, strict=True):
        assert row[:length].tolist() == ids
        assert not row[length:].any()
    assert found.cut.numpy().tolist() == [len(ids) > limit for ids in whole]
    assert found.blank.numpy().tolist() == [not ids for ids in whole]


def test_blank_rows_and_none_without_end(pieces) -> None:
    tokenizer = GraphTokenizer(pieces, 60)
    (letter,) = tokenizer.encode(tf.constant(["", "A"]), end=False).ids.numpy()[1:]
    assert letter.tolist() == pieces.encode(["A"])[0]
    assert tokenizer.encode(tf.constant(["", " "]), end=False).ids.numpy().tolist() == [[END]] * 2
    none = tokenizer.encode(tf.zeros([0], tf.string), end=False)
    assert none.ids.shape[0] == 0
    assert none.blank.shape == (0,)


def test_text_and_pieces_of_ids_are_those_of_python(pieces) -> None:
    tokenizer = GraphTokenizer(pieces, 1000)
    encoded = tokenizer.encode(tf.constant(TEXTS))
    texts = [text.decode() for text in tokenizer.decode(encoded.ids).numpy()]
    assert texts == [plain(text, pieces) for text in pieces.decode(pieces.encode(TEXTS))]
    names = tokenizer.pieces(encoded.ids).numpy()
    for row, length, ids in zip(names, encoded.lengths.numpy(), pieces.encode(TEXTS), strict=True):
        assert [name.decode() for name in row[:length]] == [*pieces.pieces(ids), "</s>"]
        assert not row[length:].any()  # "" for padding


def test_more_dimensions_and_none(pieces) -> None:
    tokenizer = GraphTokenizer(pieces, 60)
    ids = tokenizer.encode(tf.constant(TEXTS[:4])).ids
    square = tf.reshape(ids, [2, 2, -1])
    assert tokenizer.decode(square).shape == (2, 2)
    assert tf.reshape(tokenizer.decode(square), [-1]).numpy().tolist() == (
        tokenizer.decode(ids).numpy().tolist()
    )
    none = tokenizer.encode(tf.zeros([0], tf.string))
    assert none.ids.shape == (0, 1) or none.ids.shape == (0, 0)
    assert tokenizer.decode(none.ids).shape == (0,)


@pytest.mark.parametrize("spelled", ["\n", "\u2028", "\x85", "\u00a0", "▁", "\x00", "\u3000"])
def test_no_spelled_byte_breaks_the_line(pieces, spelled) -> None:
    """A model may spell any character by its bytes; line breaks become spaces."""
    names = [f"<0x{byte:02X}>" for byte in spelled.encode()]
    table = {pieces.pieces([token])[0]: token for token in range(pieces.size)}
    ids = [[*pieces.encode(["A"])[0], *(table[name] for name in names), *pieces.encode(["B"])[0]]]
    found = GraphTokenizer(pieces, 60).decode(tf.constant(ids)).numpy()[0].decode()
    assert found == plain(pieces.decode(ids)[0], pieces) == "A B"
