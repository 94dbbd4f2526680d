"""JSON of replies."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keras_transformer.server.encode import encode
from keras_transformer.server.errors import RestError

TEXTS = np.array([b"a", b'"\n'], dtype=object)


def test_one_output_has_no_name():
    assert encode({"x": TEXTS}, "row") == (
        b'{\n    "predictions": [\n        "a",\n        "\\"\\n"\n    ]\n}\n'
    )
    assert json.loads(encode({"x": TEXTS}, "column")) == {"outputs": ["a", '"\n']}


def test_float32_is_written_with_the_fewest_digits():
    values = np.array([0.2, -1e9, 16777216, 1e-7, np.nan, -np.inf], dtype=np.float32)
    assert encode({"x": values}, "column") == (
        b'{\n    "outputs": [0.2, -1000000000.0, 16777216.0, 1e-07, NaN, -Infinity]\n}\n'
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
    with pytest.raises(RestError, match="x: an output of the type complex64"):
        encode({"x": np.zeros(2, np.complex64)}, "row")
