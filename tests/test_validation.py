"""Ranges and choices of dataclass fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from keras_transformer import validation
from keras_transformer.validation import ConfigError, check_fields, option


@dataclass(frozen=True)
class Oven:
    degrees: float = option(180.0, validation.between(1, 300))
    fan: Literal["on", "off"] = "off"
    minutes: int = option(30, validation.between(5, 600))
    note: str = ""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"degrees": 0.0}, r"^oven\.degrees: expected 1 to 300, got 0\.0$"),
        ({"degrees": math.nan}, r"^oven\.degrees: expected 1 to 300, got nan$"),
        ({"fan": "fast"}, r"^oven\.fan: expected one of on, off, got 'fast'$"),
        ({"minutes": 4}, r"^oven\.minutes: expected 5 to 600, got 4$"),
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
        (validation.between(2, 3), (2, 2.5, 3), (1, 4, -math.inf, math.inf, math.nan)),
        (validation.zero_or(2, 3, "none"), (0, 2, 3), (1, -1, math.inf, math.nan)),
        (validation.RATE, (0, 0.999), (1.0, -0.1, math.nan)),
        (validation.SHARE, (1e-9, 1.0), (0, 1.1, math.nan)),
    ],
)
def test_limits(
    valid: validation.Range, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    assert all(valid.accepts(value) for value in inside)
    assert not any(valid.accepts(value) for value in outside)


def test_fields_need_no_section() -> None:
    with pytest.raises(ConfigError, match=r"^degrees: expected a number, got 'hot'$"):
        check_fields(Oven(degrees="hot"))  # type: ignore[arg-type]


def test_rates_stay_below_one_in_float32() -> None:
    assert np.float32(0.9999999) < 1
    assert np.float32(0.99999999) == 1


def test_a_number_may_be_left_out() -> None:
    validation.check_number(None, "--n", validation.between(1, 2))
    with pytest.raises(ConfigError, match=r"^--n: expected 1 to 2, got 3$"):
        validation.check_number(3, "--n", validation.between(1, 2))
