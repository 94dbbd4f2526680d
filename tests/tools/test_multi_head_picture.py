"""The picture of attention: weights and steps as they run, an up-to-date file."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import tensorflow as tf

from tools import multi_head_picture

if TYPE_CHECKING:
    from keras_transformer.model.attention import MultiHeadAttention

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def layer() -> MultiHeadAttention:
    return multi_head_picture.base_attention()


def texts(layer: MultiHeadAttention) -> list[str]:
    root = ElementTree.fromstring(multi_head_picture.picture(layer))
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_file_is_up_to_date(layer: MultiHeadAttention) -> None:
    file, command = multi_head_picture.FILE, multi_head_picture.COMMAND

    assert file.read_text(encoding="utf-8") == multi_head_picture.picture(layer), f"run {command}"


def test_every_weight_has_a_box_with_its_shape(layer: MultiHeadAttention) -> None:
    found = texts(layer)

    for weight in layer.weights:
        assert weight.name in found
    assert sum("(512, 512)" in text for text in found) == len(layer.weights) == 4
    assert found.count("8 heads of 64") == 3


def test_shapes_are_those_of_a_run() -> None:
    """B 1, H 2, T 3, S 5, K 4."""
    from keras_transformer.model.attention import scaled_dot_product_attention

    shapes = dict(zip("BHTSK", (1, 2, 3, 5, 4), strict=True))
    written = {label: shape for _, label, shape in multi_head_picture.STEPS}

    def shape(label: str) -> list[int]:
        return [shapes[name] for name in written[label].partition("(")[2].rstrip(")").split(", ")]

    queries, keys = tf.ones([1, 2, 3, 4]), tf.ones([1, 2, 5, 4])
    output, weights = scaled_dot_product_attention(queries, keys, keys)

    assert shape("weights · V") == output.shape.as_list()
    assert shape("softmax over keys") == weights.shape.as_list()
