"""OPUS-MT's punctuation rules in a SentencePiece model."""

from __future__ import annotations

import functools
import io
import random

import pytest
import sentencepiece

from keras_transformer.data.foreign_sentencepiece import SpecialIds, rewrite_models
from keras_transformer.data.opus_punctuation import REPLACEMENTS, with_opus_punctuation

TEXT = ["Is it \"A\", 'b' - or <c>: [d] (e); f!?", "50 % ~ 1.234 567 890...", "é ü ein Hund"]


@functools.cache
def model(rule: str) -> bytes:
    """Return a model that knows all characters of ``TEXT``."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 20),
        model_writer=file,
        vocab_size=90,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name=rule,
        num_threads=1,
        minloglevel=2,
    )
    return file.getvalue()


@functools.cache
def processor(rule: str = "identity") -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=with_opus_punctuation(model(rule)))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("“a” 《b》 「c」", '"a" "b" "c"'),
        ("it’s…", "it's..."),
        ("a━b∶c", "a-b:c"),
        ("a，b、c", "a,b,c"),
        ("a。b．  c。", "a. b. c."),
        ("〈a〉【b】", "<a>[b]"),
        ("：？）！（；～％", ":?)!(;~%"),
        ("０２３４５６７８９", "023456789"),
        ("１", '"'),  # as the script
        ("a\u200bb\u00adc\ufeffd\x07e\x85f", "a b c d e f"),
        ("  a \t b  ", "a b"),
        ("‘a‘ –", "‘a‘ –"),  # not in the script
    ],
)
def test_rules_by_hand(text: str, written: str) -> None:
    assert processor().normalize(text).strip("▁").replace("▁", " ") == written


def test_ids_are_those_of_the_ascii_text() -> None:
    plain = sentencepiece.SentencePieceProcessor(model_proto=model("identity"))

    assert plain.encode("“A”") != plain.encode('"A"')
    assert processor().encode("“A”") == plain.encode('"A"')


def test_every_other_piece_of_the_model_stays() -> None:
    before = sentencepiece.SentencePieceProcessor(model_proto=model("identity"))

    ids = range(before.get_piece_size())
    assert processor().id_to_piece(list(ids)) == before.id_to_piece(list(ids))


@pytest.mark.slow
def test_the_rules_of_the_model_follow() -> None:
    """NFKC of everything else, and of what a rule writes."""
    ours = processor("nmt_nfkc")

    assert ours.normalize("ﬁ １ e\u0301 ①") == '▁fi▁"▁é▁1'


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
def test_python_and_graph_agree(rule: str) -> None:
    proto = with_opus_punctuation(model(rule))
    first, _ = rewrite_models(
        [proto, proto],
        {piece: n for n, piece in enumerate(["</s>", "<unk>", *pieces(proto)])},
        SpecialIds(unknown=1, end=0),
    ).sides
    dice = random.Random(1)
    # No full stops: "..." has two segmentations of equal score, ".." before or after ".".
    replaced = [character for character, by in REPLACEMENTS.items() if "." not in by]
    characters = [*replaced, *"abcdeé  ,ﬁ", "\u200b", "\u00ad", "\x07", "e\u0301"]
    lines = ["".join(dice.choices(characters, k=20)) for _ in range(500)]

    assert first.graph().tokenize(lines).to_list() == first.encode(lines)


def pieces(proto: bytes) -> list[str]:
    found = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [found.id_to_piece(number) for number in range(3, found.get_piece_size())]
