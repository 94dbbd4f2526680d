"""Numbers of JSON texts, read and written bit for bit as TensorFlow Serving does.

rapidjson 1.1 reads a number in floating point, digit by digit. Its result may be a few units in the
last place off the nearest float64: 7.038531e-26 becomes 7.038530999999999e-26.
"""

from __future__ import annotations

import re

import numpy as np

from keras_transformer.server.signature import Array

# NaN and Inf may be followed by a fraction or an exponent: rapidjson then reads a 0 before it.
NUMBER = rb"-?(?:0|[1-9][0-9]*|NaN|Inf(?:inity)?)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_PARTS = re.compile(
    rb"(-)?([0-9]*)(NaN|Inf)?(?:inity)?(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?", re.DOTALL
)
# Significand and power of ten are exact in float64, so their quotient is the nearest one.
_SHORT_DECIMAL = re.compile(rb"-?[0-9]{1,8}\.[0-9]{1,7}")
_POWERS = [float(f"1e{exponent}") for exponent in range(309)]
_MAX_EXACT = 2**53 - 1  # significands up to here are collected as integers
_MAX_DIGITS = 17  # of a significand; further digits of the fraction are skipped
_TENTH_OF_LARGEST = 1.7976931348623157e307


def read_number(text: bytes) -> int | float:
    """Return the value of a number: an int if it is written as one and has at most 64 bits.

    Args:
        text: A match of ``NUMBER``.

    Raises:
        OverflowError: The number is too large for rapidjson.
    """
    if _SHORT_DECIMAL.fullmatch(text):
        return float(text)
    found = _PARTS.fullmatch(text)
    if found is None:
        raise ValueError(f"expected a number, got {text[:40]!r}")
    minus, whole, special, fraction, sign, exponent = found.groups()
    if special and fraction is None and exponent is None:
        magnitude = float(special.decode())
        return -magnitude if minus else magnitude
    value, digits = _whole(whole or b"0", 2**63 if minus else 2**64 - 1)
    if fraction is None and exponent is None:
        return -value if minus else value
    scale = 0
    if fraction is not None:
        value, scale = _with_fraction(value, digits, fraction)
    power = scale + _exponent(sign == b"-", exponent or b"0", 308 - scale)
    magnitude = _scaled(float(value), power)
    return -magnitude if minus else magnitude


def _whole(text: bytes, largest: int) -> tuple[int | float, int]:
    """Read the digits before the point.

    Returns:
        Their value, and the number of digits that count towards ``_MAX_DIGITS``: as in rapidjson,
        those collected as an integer of up to ``largest``, less the first one.
    """
    length = min(len(text), 20)
    while int(text[:length]) > largest:
        length -= 1
    value: int | float = int(text[:length])
    if length < len(text):
        value = float(value)
        for digit in text[length:]:
            if value >= _TENTH_OF_LARGEST:
                raise OverflowError
            value = value * 10 + (digit - 48)
    return value, length - 1


def _with_fraction(value: int | float, digits: int, fraction: bytes) -> tuple[float, int]:
    """Append the digits behind the point.

    Args:
        value: Value of the digits before the point.
        digits: Number of those that count, from ``_whole``.
        fraction: The digits behind the point.

    Returns:
        The significand, and the power of ten by which to multiply it.
    """
    taken = 0
    if isinstance(value, int):
        if value == 0:  # leading zeros change the power of ten only
            taken = len(fraction) - len(fraction.lstrip(b"0"))
        while taken < len(fraction) and value <= _MAX_EXACT:
            value = value * 10 + (fraction[taken] - 48)
            taken += 1
            digits += 1
    value = float(value)
    while taken < len(fraction) and digits < _MAX_DIGITS:
        value = value * 10.0 + (fraction[taken] - 48)
        taken += 1
        digits += value > 0.0
    return value, -taken


def _exponent(negative: bool, text: bytes, largest: int) -> int:
    """Read an exponent; only a positive one can be too large."""
    # Python does not convert thousands of digits; such exponents mean infinity or zero anyway.
    exponent = int(text.lstrip(b"0")[:18] or b"0")
    if negative:
        return -exponent
    if exponent > largest:
        raise OverflowError
    return exponent


def _scaled(value: float, power: int) -> float:
    if power >= 0:
        return value * _POWERS[power]
    if power < -308:
        value /= _POWERS[308]
        power += 308
    return 0.0 if power < -308 else value / _POWERS[-power]


def format_floats(array: Array) -> list[str]:
    """Format the values of a flat float32 or float64 array.

    A number has six significant digits if they read back as the same number. Otherwise it has 9
    (float32) or 17 (float64), which always do.
    """
    digits = 9 if array.dtype == np.float32 else 17
    values = array.tolist()
    short = [f"{value:g}" for value in values]
    same = np.array(short, dtype=np.float64).astype(array.dtype) == array
    return [
        _as_json(text if equal else f"{value:.{digits}g}")
        for text, equal, value in zip(short, same.tolist(), values, strict=True)
    ]


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _as_json(text: str) -> str:
    """Return a number of Python's format as TensorFlow Serving writes it."""
    if "." in text or "e" in text:
        return text
    return _NOT_FINITE.get(text) or f"{text}.0"
