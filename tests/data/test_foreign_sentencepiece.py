"""Two SentencePiece models of another system with the ids of one vocabulary."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from keras_transformer.data.agreement import agreement
from keras_transformer.data.errors import TokenizerError
from keras_transformer.data.foreign_sentencepiece import (
    NONE,
    RewrittenModels,
    SpecialIds,
    language_tags,
    rewrite_models,
)
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.special_tokens import UNKNOWN

PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
OPUS = SpecialIds(pad=10, unknown=1, end=0)
# Of two models and one vocabulary; ">>deu<<" is a tag, "ä" and "▁ha" are of the target.
VOCABULARY = {
    "</s>": 0,
    "<unk>": 1,
    "▁a": 2,
    "b": 3,
    "▁": 4,
    "▁ha": 5,
    "ä": 6,
    "a": 7,
    ">>deu<<": 8,
    "h": 9,
    "<pad>": 10,
}


def model(pieces: dict[str, float], **trainer: int) -> bytes:
    """A unigram model with the special tokens of SentencePiece's defaults."""
    proto = sentencepiece_model_pb2.ModelProto()
    special = {"<unk>": PIECE.UNKNOWN, "<s>": PIECE.CONTROL, "</s>": PIECE.CONTROL}
    for piece, kind in special.items():
        proto.pieces.add(piece=piece, type=kind)
    for piece, score in pieces.items():
        proto.pieces.add(piece=piece, score=score, type=PIECE.NORMAL)
    proto.trainer_spec.model_type = trainer.get("model_type", proto.trainer_spec.UNIGRAM)
    proto.normalizer_spec.add_dummy_prefix = True
    proto.normalizer_spec.remove_extra_whitespaces = True
    proto.normalizer_spec.escape_whitespaces = True
    return proto.SerializeToString()


SOURCE = model({"▁a": -1.0, "b": -2.0, "▁": -3.0, "a": -4.0, "c": -5.0})
TARGET = model({"▁ha": -1.0, "ä": -2.0, "▁": -3.0, "a": -4.0, "b": -5.0, "h": -6.0})


@pytest.fixture(scope="module")
def rewritten() -> RewrittenModels:
    return rewrite_models([SOURCE, TARGET], VOCABULARY, OPUS, [">>deu<<"])


def test_ids_are_those_of_the_vocabulary_after_the_special_tokens(rewritten) -> None:
    pieces = ["<pad>", "<unk>", "<s>", "</s>"]
    pieces += ["▁a", "b", "▁", "▁ha", "ä", "a", "▁>>deu<<", "h", "c"]
    for side in rewritten.sides:
        assert side.pieces(range(side.size)) == pieces
    assert rewritten.embedded == [10, 1, NONE, 0, 2, 3, 4, 5, 6, 7, 8, 9, 1]
    assert rewritten.scored == [10, 1, NONE, 0, 2, 3, 4, 5, 6, 7, 8, 9, NONE]
    tokenizer = Tokenizer(*rewritten.sides)
    assert tokenizer.same_ids
    assert not tokenizer.joint


def test_each_side_cuts_its_text_as_before(rewritten) -> None:
    source, target = rewritten.sides
    assert source.encode(["ab ba", "cb"]) == [[4, 5, 6, 5, 9], [6, 12, 5]]
    # "▁ha" is one piece in German alone; the source has "h" as an unknown character with an id.
    assert target.encode(["ha"]) == [[7]]
    assert source.encode(["ha"]) == [[6, 11, 9]]
    assert source.encode(["bä"]) == [[6, 5, 8]]
    # "c" is unknown in German: its id means a piece of the source.
    assert target.encode(["ac"]) == [[6, 9, UNKNOWN]]


def test_unused_pieces_are_decoded(rewritten) -> None:
    source, target = rewritten.sides
    assert source.decode([[4, 5, 7, 8]]) == ["ab haä"]
    assert target.decode([[4, 5, 7, 8]]) == ["ab haä"]


@pytest.mark.parametrize("tag", [">>deu<<", "<2de>"])
def test_a_tag_is_one_token_at_the_beginning(tag: str) -> None:
    vocabulary = {{">>deu<<": tag}.get(piece, piece): row for piece, row in VOCABULARY.items()}
    assert language_tags(vocabulary, [SOURCE, TARGET]) == [tag]
    source, target = rewrite_models([SOURCE, TARGET], vocabulary, OPUS, [tag]).sides
    tagged, plain = source.encode([f"{tag} ab", "ab"])
    assert tagged == [10, *plain]
    assert UNKNOWN in target.encode([f"{tag} ab"])[0]
    assert agreement(Tokenizer(source, target), [f"{tag} ab", f"ab {tag}", tag]).encoded == ()


def test_a_tag_among_the_pieces_of_a_model_stays_as_it_is() -> None:
    proto = sentencepiece_model_pb2.ModelProto.FromString(SOURCE)
    proto.pieces.add(piece="<2de>", type=PIECE.USER_DEFINED)
    data = proto.SerializeToString()
    vocabulary = {"</s>": 0, "<unk>": 1, "▁a": 2, "<2de>": 3, "▁": 4}
    assert language_tags(vocabulary, [data]) == []
    found = rewrite_models([data], vocabulary, SpecialIds(unknown=1, end=0), ["<2de>"])
    (side,) = found.sides
    assert side.pieces(side.encode(["<2de> a"])[0]) == ["▁", "<2de>", "▁a"]
    assert found.scored[5] == 3


def test_an_entry_with_the_name_of_a_special_token_is_renamed() -> None:
    vocabulary = {"</s>": 0, "<unk>": 1, "<s>": 2, "▁a": 3}
    found = rewrite_models([SOURCE], vocabulary, SpecialIds(unknown=1, end=0))
    (side,) = found.sides
    assert side.pieces([4, 5]) == ["<s>'", "▁a"]
    assert found.scored[:6] == [NONE, 1, NONE, 0, 2, 3]


def test_an_unknown_token_outside_the_vocabulary() -> None:
    found = rewrite_models(
        [SOURCE], {"<blank>": 0, "<s>": 1, "</s>": 2, "▁a": 3}, SpecialIds(0, 4, 1, 2)
    )
    assert found.embedded == [0, 4, 1, 2, 3, 4, 4, 4, 4]
    assert found.sides[0].pieces(range(4, 9)) == ["▁a", "b", "▁", "a", "c"]


def test_damaged_models_and_vocabularies_are_refused() -> None:
    with pytest.raises(TokenizerError, match="expected a model file, got 5 other bytes"):
        rewrite_models([b"\xffhaha"], VOCABULARY, OPUS)
    with pytest.raises(TokenizerError, match="expected pieces, got none"):
        rewrite_models([b""], VOCABULARY, OPUS)
    with pytest.raises(TokenizerError, match="got one id for two pieces"):
        rewrite_models([SOURCE], VOCABULARY | {"twice": 5}, OPUS)


def trained(lines: list[str], kind: str) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=800,
        model_type=kind,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    return written.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_real_text_is_cut_as_by_the_models_themselves(corpora: Path, kind: str) -> None:
    """The rule of OPUS-MT: pieces as text, each looked up in the vocabulary, else unknown."""
    folder = corpora / "multi30k"
    english, german = (
        (folder / f"val.{code}").read_text("utf-8").splitlines() for code in ("en", "de")
    )
    models = [trained(english, kind), trained(german, kind)]
    old = [sentencepiece.SentencePieceProcessor(model_proto=data) for data in models]
    pieces = {each.id_to_piece(i): None for each in old for i in range(3, each.get_piece_size())}
    lost = list(pieces)[40]
    names = ["</s>", "<unk>", *(piece for piece in pieces if piece != lost), ">>deu<<", "<pad>"]
    vocabulary = {name: row for row, name in enumerate(names)}
    special = SpecialIds(pad=len(names) - 1, unknown=1, end=0)
    found = rewrite_models(models, vocabulary, special, language_tags(vocabulary, models))
    other = {"en": (folder / "test_2016_flickr.en").read_text("utf-8").splitlines()}
    for side, each, lines in zip(found.sides, old, (english + other["en"], german), strict=True):
        wanted = [
            [vocabulary.get(piece, 1) for piece in row] for row in each.encode(lines, out_type=str)
        ]
        assert [[found.embedded[id_] for id_ in row] for row in side.encode(lines)] == wanted
    assert found.embedded[-1] == 1
    assert found.sides[0].pieces([len(names) + 1]) == [lost]
    tagged = found.sides[0].encode([f">>deu<< {line}" for line in english])
    tag = found.scored.index(vocabulary[">>deu<<"])
    assert tagged == [[tag, *row] for row in found.sides[0].encode(english)]
    result = agreement(Tokenizer(*found.sides), [*english, *german])
    assert (result.lines, result.encoded, result.decoded) == (2028, (), ())
    assert result.note() == ""
