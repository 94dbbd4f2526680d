"""Replies to predict requests."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keras_transformer.server.encode import encode
from keras_transformer.server.errors import RestError

TEXTS = np.array([b"a", b'"\n'], dtype=object)


def test_one_output_has_no_name():
    assert encode({"x": TEXTS}, "row") == b'{\n    "predictions": ["a", "\\"\\n"\n    ]\n}'
    assert json.loads(encode({"x": TEXTS}, "column")) == {"outputs": ["a", '"\n']}


def test_a_float_has_six_digits_or_as_many_as_it_needs():
    values = [0.2, -1e9, 16777216, 16777218, 1e-7, -0.35440078, 3, np.nan, -np.inf]
    texts = ["0.2", "-1e+09", "16777216.0", "16777218.0", "1e-07", "-0.354400784", "3.0"]
    texts += ["NaN", "-Infinity"]
    reply = encode({"x": np.array(values, dtype=np.float32)}, "row").decode()
    assert reply == '{\n    "predictions": [' + ", ".join(texts) + "\n    ]\n}"
    third = encode({"x": np.array(1 / 3)}, "column")
    assert third == b'{\n    "outputs": 0.33333333333333331\n}'


@pytest.mark.parametrize("layout", ["row", "column"])
def test_control_characters_quotes_and_invalid_utf8(layout):
    reply = encode({"x": np.array([b'\x00\x1f\x7f"\\/\b\xff\xc3\xa4'], dtype=object)}, layout)
    assert rb'"\u0000\u001F' + b"\x7f" + rb"\"\\/\b" + b'\xff\xc3\xa4"' in reply


def test_no_rows_and_empty_lists():
    none = {"x": np.zeros((0, 2), np.float32), "y": np.zeros(0, np.int32)}
    assert encode(none, "row") == b'{\n    "predictions": []\n}'
    assert json.loads(encode(none, "column")) == {"outputs": {"x": [], "y": []}}
    empty = {"x": np.zeros((2, 1, 0), np.float32)}
    assert encode(empty, "row") == b'{\n    "predictions": [[[]], [[]]\n    ]\n}'


def test_columns_have_one_value_a_line():
    grid = {"x": np.array([[1, 2]], np.int32), "y": np.array([b"a"], dtype=object)}
    assert (
        encode(grid, "column").decode()
        == """{
    "outputs": {
        "x": [
            [
                1,
                2
            ]
        ],
        "y": [
            "a"
        ]
    }
}"""
    )


def test_outputs_whose_names_end_in_bytes_are_base64():
    reply = json.loads(encode({"x_bytes": TEXTS}, "row"))
    assert reply == {"predictions": [{"b64": "YQ=="}, {"b64": "Igo="}]}


def test_integers_and_booleans():
    outputs = {"n": np.array([2**40], dtype=np.int64), "t": np.array([True])}
    assert json.loads(encode(outputs, "row")) == {"predictions": [{"n": 2**40, "t": True}]}


@pytest.mark.parametrize(
    "outputs",
    [
        {"x": np.float32(1)},
        {"x": np.zeros(2, np.int32), "y": np.zeros(3, np.int32)},
        {"x": np.zeros(2, np.int32), "y": np.int32(3)},
    ],
)
def test_row_form_needs_a_batch_dimension(outputs):
    with pytest.raises(RestError, match="no common number of rows"):
        encode(outputs, "row")
    assert encode(outputs, "column")


def test_a_type_without_json_form_is_refused():
    for dtype in (np.complex64, np.float16, np.uint16):
        with pytest.raises(RestError, match=f"x: an output of the type {dtype.__name__}"):
            encode({"x": np.zeros(2, dtype)}, "row")
        assert encode({"x": np.zeros((2, 0), dtype)}, "row")
    with pytest.raises(RestError, match="no outputs"):
        encode({}, "column")
