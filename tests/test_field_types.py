"""Texts read by the type of a field."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest

from keras_transformer.field_types import (
    TEXTS,
    describe_type,
    format_name,
    format_value,
    is_valid,
    read_text,
)

Fan = Literal["on", "off"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("12", int, 12),
        ("-3", int, -3),
        ("+5", int, 5),
        (" 5 ", int, 5),
        ("1_000", int, 1000),
        ("1e3", int, 1000),
        ("2.5e3", int, 2500),
        ("1000.0", int, 1000),
        ("0", int, 0),
        ("9" * 30, int, 10**30 - 1),
        ("6e-1", float, 0.6),
        ("1e-9", float, 1e-9),
        (".5", float, 0.5),
        ("5.", float, 5.0),
        ("1_000.5", float, 1000.5),
        ("7", float, 7.0),
        ("true", bool, True),
        ("No", bool, False),
        ("ON", bool, True),
        ("no", str, "no"),
        ("012", str, "012"),
        ("2020-01-01", str, "2020-01-01"),
        ("", str, ""),
        ("on", Fan, "on"),
        ("3", int | None, 3),
        ('["a", ">>b<<"]', TEXTS, ("a", ">>b<<")),
        (" [] ", TEXTS, ()),
    ],
)
def test_a_text_is_read_by_its_type(text: str, kind: Any, value: object) -> None:
    found = read_text(text, kind)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, TEXTS) for text in ("", "a", "a, b", "[a]", '["a", 1]', '{"a": 1}', "[" * 99_999)),
        *((text, int) for text in ("012", "0x10", "1:30", "1_00", "1__000", "1,000", "0.5", "")),
        *((text, int) for text in ("null", "true", "inf", "1e400", "1e999999999", "٣", "9" * 5000)),
        *((text, float) for text in ("0,5", "1:30", "01", "1e", "e5", ".", "½", "null", "yes", "")),
        *((text, bool) for text in ("1", "0", "maybe", "", "null", "y")),
        ("a\0b", str),
        ("ON", Fan),
        ("null", int | None),
    ],
)
def test_a_text_that_is_no_such_value_is_refused(text: str, kind: Any) -> None:
    with pytest.raises(ValueError, match="^expected .*, got "):
        read_text(text, kind)


def test_numbers_that_are_not_finite_are_left_to_the_range() -> None:
    assert read_text(".inf", float) == read_text("1e400", float) == float("inf")
    assert read_text(".NaN", float) != read_text(".NaN", float)


def test_types_are_described() -> None:
    kinds = (int, float | None, bool, str, Fan)
    assert [describe_type(kind) for kind in kinds] == [
        "a whole number",
        "a number",
        "true or false",
        "a text",
        "one of on, off",
    ]


def test_bool_is_no_number() -> None:
    assert not is_valid(True, int)
    assert not is_valid(True, float)
    assert not is_valid(1, bool)
    assert is_valid(None, int | None)
    assert not is_valid(None, int)


def test_long_values_are_shortened_in_messages() -> None:
    assert format_value("short") == "'short'"
    assert format_value("x" * 200) == f"'{'x' * 75}...'"
    assert format_value(10**5000) == "a number of thousands of digits"


def test_names_are_shown_in_one_short_line() -> None:
    assert format_name("train.seed") == "train.seed"
    assert format_name("我") == "我"
    assert format_name("a\nb\x1b") == r"a\nb\x1b"
    assert format_name("k" * 5000) == "k" * 77 + "..."


def test_exponents_of_any_size_are_read_or_refused() -> None:
    for text in ("1e9999999999999999999", "1e-9999999999999999999", "1e200"):
        with pytest.raises(ValueError, match="expected a whole number"):
            read_text(text, int)
    assert read_text("1e-9999999999999999999", float) == 0.0
    assert read_text("1e9999999999999999999", float) == math.inf  # for the range to refuse
