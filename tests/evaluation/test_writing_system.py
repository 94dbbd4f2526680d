"""Scripts of texts in many languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.evaluation.writing_system import detect_script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("我爱你们。", "chinese"),
        ("他在 Microsoft 工作，每天 8 小时。", "chinese"),
        ("私はあなたを愛しています。", "japanese"),
        ("コーヒー", "japanese"),
        ("나는 너를 사랑해.", "korean"),
        ("ฉันรักคุณ", "spaceless"),  # Thai
        ("ຂ້ອຍຮັກເຈົ້າ", "spaceless"),  # Lao
        ("ខ្ញុំស្រឡាញ់អ្នក", "spaceless"),  # Khmer
        ("ငါမင်းကိုချစ်တယ်", "spaceless"),  # Burmese
        ("ང་ཁྱེད་ལ་དགའ་པོ་ཡོད།", "spaceless"),  # Tibetan
        ("Ich liebe dich.", None),
        ("Я тебя люблю", None),
        ("أنا أحبك", None),
        ("मैं तुमसे प्यार करता हूँ", None),
        ("Tôi yêu bạn", None),
        ("12:30 …", None),
        ("", None),
    ],
)
def test_script_of_a_text(text: str, script: str | None) -> None:
    assert detect_script([text]) == script


def test_quotations_do_not_decide() -> None:
    """5 of 27 letters are Chinese, less than a quarter; 9 of 31 are more."""
    german = "Das Wort bedeutet Hallo."  # 20 letters
    assert detect_script([german, "你好你好你"]) is None
    assert detect_script([german, "你好你好你好你"]) == "chinese"  # 7 of 27
    assert detect_script(["我们在超市里买了很多东西和一本名为の的书"]) == "chinese"  # 1 kana of 20


def test_missing_references_are_skipped() -> None:
    assert detect_script([None, "你好"]) == "chinese"
    assert detect_script([None]) is None
    assert detect_script([]) is None


@given(st.text(alphabet=st.characters(max_codepoint=0x052F)))
def test_latin_greek_and_cyrillic_have_spaces(text: str) -> None:
    assert detect_script([text]) is None
