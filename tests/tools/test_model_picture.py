"""The picture of the model: calls, sub-layers and masks as they run, an up-to-date file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tools import model_graph, model_picture

if TYPE_CHECKING:
    import keras

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return model_picture.base_model()


@pytest.fixture(scope="module")
def picture(model: keras.Model) -> str:
    return model_picture.picture(model)


def test_file_is_up_to_date(picture: str) -> None:
    file, command = model_picture.FILE, model_picture.COMMAND

    assert file.read_text(encoding="utf-8") == picture, f"{file.name}: run {command}"


def test_connections_are_those_of_figure_1(model: keras.Model) -> None:
    nodes = model_graph.nodes(model)

    assert {call: node.inputs for call, node in nodes.items()} == {
        ("source", 0): [],
        ("target", 0): [],
        ("embedding", 0): [("source", 0)],
        ("embedding", 1): [("target", 0)],
        ("embedding", 2): [("decoder", 0)],
        ("source_positions", 0): [("embedding", 0)],
        ("target_positions", 0): [("embedding", 1)],
        ("source_mask", 0): [("source", 0)],
        ("target_mask", 0): [("target", 0)],
        ("encoder", 0): [("source_positions", 0), ("source_mask", 0)],
        ("decoder", 0): [
            ("target_positions", 0),
            ("encoder", 0),
            ("target_mask", 0),
            ("source_mask", 0),
        ],
    }
    assert [call for call, node in nodes.items() if node.options.get("reverse")] == [
        ("embedding", 2)
    ]


def test_sublayers_are_those_that_run(model: keras.Model) -> None:
    parts = {
        stack: [
            (part.name, part.connection, part.inputs, part.causal)
            for part in model_graph.sublayers(model.get_layer(stack))
        ]
        for stack in ("encoder", "decoder")
    }
    feed_forward = ("feed_forward", "feed_forward_connection", (), False)

    assert parts == {
        "encoder": [
            ("self_attention", "self_attention_connection", ("source_mask",), False),
            feed_forward,
        ],
        "decoder": [
            ("self_attention", "self_attention_connection", ("target_mask",), True),
            ("cross_attention", "cross_attention_connection", ("memory", "source_mask"), False),
            feed_forward,
        ],
    }


def test_every_layer_has_a_box_with_its_section(model: keras.Model, picture: str) -> None:
    texts = [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]

    for layer in model.layers:
        assert layer.name in texts
        if layer.name not in ("source", "target"):
            assert model_graph.section(layer), layer.name
    assert texts.count("embedding") == 4  # three calls and the note that they are one layer
    assert texts.count("N = 6 · §3.1") == 2
    labels = [text for text in texts if re.match("Multi|Feed|add", text)]
    assert sorted(labels) == sorted(
        ["add & norm · §3.1"] * 5
        + ["FeedForward · §3.3"] * 2
        + ["MultiHeadAttention · §3.2.2"] * 2
        + ["MultiHeadAttention, causal · §3.2.2"]
    )
