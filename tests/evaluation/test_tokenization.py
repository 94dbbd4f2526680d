"""Choice of BLEU's tokenizer by language code and text."""

from __future__ import annotations

from typing import get_args

import pytest
from sacrebleu.metrics import BLEU

from keras_transformer.config.train import BleuTokenizer
from keras_transformer.evaluation import tokenization
from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.metrics import evaluate
from keras_transformer.evaluation.tokenization import AUTO, Tokenization, choose_tokenization

CHINESE, THAI, GERMAN = "我爱你们", "ฉันรักคุณมาก", "Ein Hund läuft."


def test_configuration_offers_sacrebleu_s_tokenizers() -> None:
    assert set(get_args(BleuTokenizer)) == {AUTO, *BLEU.TOKENIZERS}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "13a"),
        ("xx", "13a"),
        ("zh-TW", "zh"),
        ("zho_Hans", "zh"),
        ("yue_Hant", "zh"),
        ("ja", "ja-mecab"),
        ("th", "char"),
        ("khm_Khmr", "char"),
    ],
)
def test_codes_that_stand_for_a_tokenizer(code: str, name: str) -> None:
    chosen = choose_tokenization(code)
    assert (chosen.name, chosen.note) == (name, "")
    assert chosen.by_character == (name in ("zh", "ja-mecab"))


@pytest.mark.parametrize(
    ("code", "text", "name"),
    [
        ("cn", CHINESE, "zh"),
        ("de", CHINESE, "zh"),
        ("jp", "私はあなたを愛しています。", "ja-mecab"),
        ("thai", THAI, "char"),
        ("shn", "ငါမင်းကိုချစ်တယ်", "char"),
    ],
)
def test_text_decides_where_the_code_names_none(code: str, text: str, name: str) -> None:
    chosen = choose_tokenization(code, [text])
    assert chosen.name == name
    assert chosen.by_character == (name != "char")
    assert chosen.note.startswith(f"BLEU tokenizer: {name}, chosen by the text (")
    assert chosen.note.endswith(f"; the language code {code!r} has none")


@pytest.mark.parametrize(("code", "text"), [("zh", GERMAN), ("zh", CHINESE), ("de", GERMAN)])
def test_code_decides_without_a_line(code: str, text: str) -> None:
    assert choose_tokenization(code, [text]) == choose_tokenization(code)


def test_text_decides_against_a_code_whose_tokenizer_would_split_nothing() -> None:
    chosen = choose_tokenization("zh", [THAI])
    assert chosen.name == "char"
    assert chosen.note.endswith("; the language code 'zh' has zh")


def test_a_chosen_tokenizer_is_used_without_a_line() -> None:
    assert choose_tokenization("cn", [CHINESE], "char") == Tokenization("char", True)
    with pytest.raises(EvaluationError, match=r"expected one of auto, none, .*, got 'moses9'"):
        choose_tokenization("cn", [CHINESE], "moses9")


def test_characters_replace_a_tokenizer_that_only_the_text_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class WithoutMecab(BLEU):
        def __init__(self, **options: object) -> None:
            if "mecab" in str(options["tokenize"]):
                raise RuntimeError
            super().__init__(**options)

    monkeypatch.setattr(tokenization, "BLEU", WithoutMecab)
    chosen = choose_tokenization("kr", ["나는 너를 사랑해."])
    assert chosen.name == "char"
    assert "pip install 'sacrebleu[ko]'" in chosen.note
    with pytest.raises(EvaluationError, match=r"pip install 'sacrebleu\[ja\]'.* such as char"):
        choose_tokenization("ja", ["私は"])


def test_bleu_of_unlabelled_chinese_and_thai_worked_out_by_hand() -> None:
    """我爱你们 for 我爱他们, twice with four equal characters: 7/8, 4/6, 2/4 and 1/2 match.

    As whole sentences only 1 of 2 "words" would match, and no n-gram above.
    """
    precisions = (7 / 8) * (4 / 6) * (2 / 4) * (1 / 2)
    for code, one, other, equal in (
        ("cn", "我爱你们", "我爱他们", "你好世界"),
        ("xx", "กขคง", "กขจง", "ฉชซญ"),
    ):
        scores = evaluate([one, equal], [[other, equal]], code)
        assert scores.bleu == pytest.approx(100 * precisions ** (1 / 4))
