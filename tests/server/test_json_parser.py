"""JSON texts and numbers of requests."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer.server.errors import RestError
from keras_transformer.server.json_numbers import format_floats, read_number
from keras_transformer.server.json_parser import MAX_DEPTH, JsonObject, parse_json

quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def plain(value):
    """Return a value with dicts and texts, as the standard library gives it."""
    if isinstance(value, JsonObject):
        return {key.decode(): plain(item) for key, item in value.members}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"18446744073709551615", 2**64 - 1),
        (b"18446744073709551616", 2.0**64),
        (b"-9223372036854775808", -(2**63)),
        (b"-9223372036854775809", -(2.0**63)),
        (b"1.0", 1.0),
        (b"1e2", 100.0),
        (b"7.038531e-26", 7.038530999999999e-26),  # one unit in the last place off
        (b"1" + b"0" * 308, 9.999999999999998e307),
        (b"0." + b"0" * 400 + b"1e401", 1.0),
        (b"1e-99999999999999999999", 0.0),
        (b"123456789e" + b"0" * 5000 + b"1", 1234567890.0),
        (b"9007199254740993.0", 9007199254740992.0),
        (b"Inf", math.inf),
        (b"-Infinity", -math.inf),
        (b"Inf.5", 0.5),  # rapidjson drops the infinity
        (b"-NaNe3", -0.0),
    ],
)
def test_numbers(text, value):
    found = read_number(text)
    assert (type(found), found, math.copysign(1, found)) == (
        type(value),
        value,
        math.copysign(1, value),
    )
    assert parse_json(b"[" + text + b"]")[0] == found


@pytest.mark.parametrize("text", [b"1e309", b"1" + b"0" * 309, b"9" * 5000, b"1e" + b"9" * 5000])
def test_numbers_beyond_float64(text):
    with pytest.raises(OverflowError):
        read_number(text)


@quick
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1))
def test_numbers_are_at_most_a_few_units_off(number):
    found = read_number(repr(number).encode())
    assert type(found) is type(number)
    assert found == number or math.isclose(found, number, rel_tol=1e-15, abs_tol=5e-324)


@quick
@given(st.floats(width=32), st.floats())
def test_written_floats_are_the_same_when_read(narrow, wide):
    for value, dtype in ((narrow, np.float32), (wide, np.float64)):
        (text,) = format_floats(np.array([value], dtype=dtype))
        assert np.array_equal(np.array([float(text)]).astype(dtype), [value], equal_nan=True)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@quick
@given(TREES, st.booleans(), st.sampled_from([None, 2]), st.binary(max_size=5))
def test_json_of_python_is_read(tree, ascii_only, indent, behind):
    text = json.dumps(tree, ensure_ascii=ascii_only, indent=indent)
    separated = b" " + behind if isinstance(tree, int) else behind
    assert plain(parse_json(b"\n" + text.encode() + separated)) == tree


TOKENS = ["[", "]", "{", "}", ",", ":", " ", "\t", '"a"', '"', '"\\n"', '"\\u00e4"', "\\", "1", "-",
          "0", ".5", "e3", "true", "nul", "null", "a", "\x01", "/", "'"]  # fmt: skip


@quick
@given(st.lists(st.sampled_from(TOKENS), max_size=9).map("".join))
def test_the_same_texts_are_json_as_for_python(text):
    try:
        wanted = json.JSONDecoder().raw_decode("[" + text)[0]
    except ValueError:
        with pytest.raises(RestError) as error:
            parse_json(b"[" + text.encode())
        assert error.value.status == 400
    else:
        assert plain(parse_json(b"[" + text.encode())) == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83d\ude00"', "🙂".encode().replace(b"\x99\x82", b"\x98\x80")),
        (rb'"\udc00x"', b"\xed\xb0\x80x"),
        (b'"\xff\x80"', b"\xff\x80"),
        (b"\xbf 1", 1),  # each byte of a byte order mark is skipped by itself
        (b"\xef\xbf 1", 1),
        (b"[]]", []),
    ],
)
def test_texts_that_only_rapidjson_takes(text, value):
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        rb'"\ud800"',
        rb'"\ud800\u0041"',
        b"\xbb\xef1",
        b"\xef\xbb\xbf\xef\xbb\xbf1",
        b"\xa0 1",
        b"nan",
    ],
)
def test_texts_that_rapidjson_refuses(text):
    with pytest.raises(RestError, match="not valid JSON"):
        parse_json(text)


def test_nesting_is_bounded_and_takes_no_stack():
    deepest = MAX_DEPTH * b"[" + b"]" * MAX_DEPTH
    assert isinstance(parse_json(deepest), list)
    for text in (b"[" + deepest + b"]", b"[" * 1_000_000, b'{"a":' * 20_000):
        with pytest.raises(RestError, match="nested too deep"):
            parse_json(text)


@pytest.mark.parametrize(
    "unit",
    [b"1,", b"1.25e1,", b'"",', b'"\\n\\u00e4",', b"[],", b'{"":{}},', b'"' + b"\\n" * 50 + b'",'],
)
def test_time_is_linear(unit):
    def seconds(count):
        text = b"[" + unit * count + b"0]"
        started = time.process_time()
        assert len(parse_json(text)) == count + 1
        return time.process_time() - started

    small = min(seconds(1000) for _ in range(3))
    assert min(seconds(10_000) for _ in range(2)) < 40 * small + 0.05
