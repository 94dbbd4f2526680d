"""MarianMT's vocabularies: order, padding, tags; and what its tokenizer makes of a text."""

from __future__ import annotations

import sentencepiece

from keras_transformer.convert.foreign_tokenizer import Vocabulary, from_sentencepiece
from keras_transformer.data.foreign_sentencepiece import SpecialIds
from keras_transformer.data.sentencepiece_tokenizer import SentencePiece
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.serving.marian_hf.vocabulary import (
    MarianVocabulary,
    language_tags,
    model_bytes,
    vocabularies,
)
from keras_transformer.special_tokens import END, PAD, UNKNOWN
from tests.support.foreign_models import TAG, sentencepiece_model, vocabulary

LINES = [
    "a small dog runs over the grass",
    "",
    "the girl läuft, zwei Ärzte 中国 sit",  # characters of the other model, and of none
    f"{TAG} two men",
    "</s> <unk> ▁",
]


def converted() -> tuple[Tokenizer, SentencePiece, SentencePiece]:
    tokens = (*vocabulary(), "<pad>")
    foreign = Vocabulary(
        {token: number for number, token in enumerate(tokens)},
        SpecialIds(pad=len(tokens) - 1, unknown=1, start=len(tokens) - 1, end=0),
    )
    models = (sentencepiece_model("source"), sentencepiece_model("target"))
    tokenizer = from_sentencepiece(models, foreign, foreign).tokenizer
    source, target = tokenizer.source, tokenizer.target
    assert isinstance(source, SentencePiece)
    assert isinstance(target, SentencePiece)
    return tokenizer, source, target


def hf_ids(text: str, model: bytes, vocabulary: MarianVocabulary) -> list[int]:
    """Return the ids of MarianTokenizer: a tag, then pieces, which are looked up as text."""
    tokens = []
    if text.startswith(">>") and (end := text.find("<<")) >= 0:
        tokens, text = [text[: end + 2]], text[end + 2 :]
    tokens += sentencepiece.SentencePieceProcessor(model_proto=model).encode(text, out_type=str)
    ids = vocabulary.ids
    return [ids.get(token, ids["<unk>"]) for token in tokens]


def test_a_converted_vocabulary_comes_back() -> None:
    _, source, target = converted()
    both, same = vocabularies(source, target, (set(), set()), common=True)
    assert both is same
    assert both.tokens == [*vocabulary(), "<pad>"]
    assert both.pad == len(both.tokens) - 1
    assert both.rows[[0, 1, -1]].tolist() == [END, UNKNOWN, PAD]


def test_the_tokenizer_there_gives_the_same_ids() -> None:
    _, source, target = converted()
    both, _ = vocabularies(source, target, (set(), set()), common=True)
    tags = language_tags(source)
    assert tags == {f"▁{TAG}": TAG}
    for side in (source, target):
        model = model_bytes(side, tags)
        assert TAG.encode() not in model
        lines = LINES if side is source else LINES[:3]
        for line, ids in zip(lines, side.encode(lines), strict=True):
            assert both.rows[hf_ids(line, model, both)].tolist() == ids


def test_a_model_without_tags_is_written_as_it_is() -> None:
    _, source, _ = converted()
    assert model_bytes(source, {}) == source.proto


def test_padding_has_one_id_for_two_sizes() -> None:
    _, source, target = converted()
    few = set(range(10, source.size))
    small, large = vocabularies(source, target, (few, {5}), common=False)
    assert small.tokens[-1] == "<pad>"
    assert small.pad == large.pad == len(small.tokens) - 1 == 2 + 6
    assert sorted(small.rows) == [PAD, UNKNOWN, *range(END, 10)]
    assert sorted(large.rows) == [PAD, UNKNOWN, END, 4, *range(6, target.size)]
    assert len(large.ids) == len(large.tokens)


def test_common_ids_stay_if_one_side_needs_them() -> None:
    _, source, target = converted()
    both, _ = vocabularies(source, target, ({7, 8}, {8, 9}), common=True)
    assert set(range(source.size)) - set(both.rows.tolist()) == {2, 8}  # the start token too
