"""Ranges and choices of dataclass fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import pytest

from keras_transformer import validation
from keras_transformer.validation import ConfigError, check_fields, option


@dataclass(frozen=True)
class Oven:
    degrees: float = option(180.0, validation.POSITIVE)
    fan: Literal["on", "off"] = "off"
    minutes: int = option(30, validation.at_least(5))
    note: str = ""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"degrees": 0.0}, r"^oven\.degrees: expected a number above 0, got 0\.0$"),
        ({"degrees": math.nan}, r"^oven\.degrees: expected a number above 0, got nan$"),
        ({"fan": "fast"}, r"^oven\.fan: expected one of on, off, got 'fast'$"),
        ({"minutes": 4}, r"^oven\.minutes: expected 5 or more, got 4$"),
    ],
)
def test_an_invalid_field_is_named(values: dict[str, object], message: str) -> None:
    assert (Oven.degrees, Oven().minutes) == (180.0, 30)
    check_fields(Oven(minutes=5, note="any"), "oven")
    with pytest.raises(ConfigError, match=message):
        check_fields(Oven(**values), "oven")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("valid", "inside", "outside"),
    [
        (validation.NOT_NEGATIVE, (0, 1e9), (-1e-9, math.nan)),
        (validation.RATE, (0, 0.999), (1.0, -0.1, math.nan)),
        (validation.SHARE, (1e-9, 1.0), (0, 1.1, math.nan)),
        (validation.POSITIVE, (1e-9, 1e9), (0, -1, math.inf)),
    ],
)
def test_limits(
    valid: validation.Range, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    assert all(valid.accepts(value) for value in inside)
    assert not any(valid.accepts(value) for value in outside)
