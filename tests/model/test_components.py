"""Tables of components: complete, and open to variants."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import model
from keras_transformer.config import ModelConfig
from keras_transformer.config.model import Ablation, Activation, Norm, Positions
from keras_transformer.model import components, transformer
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.model.sublayer import SublayerConnection
from keras_transformer.model.variants.pre_norm import PreNormConnection

PACKAGE = "keras_transformer"
FOLDER = Path(model.__file__).parent


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (components.CONNECTIONS, Norm),
        (components.POSITIONAL_ENCODINGS, Positions),
        (components.SELF_ATTENTIONS, Positions),
        (components.FEED_FORWARDS, Activation),
    ],
)
def test_every_name_of_the_configuration_has_a_component(table: Any, names: Any) -> None:
    assert set(table) == set(get_args(names))


def test_every_ablation_has_one_component() -> None:
    tables: list[Any] = [
        components.ABLATED_CONNECTIONS,
        components.ABLATED_ATTENTIONS,
        components.WITHOUT_FEED_FORWARD,
    ]
    names = [name for table in tables for name in table]
    assert sorted(["none", *names]) == sorted(get_args(Ablation))


def test_defaults_are_the_paper_s() -> None:
    paper = ModelConfig()
    kinds = [
        type(build(paper))
        for build in (
            components.sublayer_connection,
            components.positional_encoding,
            components.self_attention,
            components.cross_attention,
            functools.partial(components.feed_forward, side="encoder"),
            functools.partial(components.feed_forward_connection, side="decoder"),
            functools.partial(components.token_embedding, vocabulary_size=5, projects=True),
        )
    ]
    assert [kind.__name__ for kind in kinds] == [
        "SublayerConnection",
        "PositionalEncoding",
        "MultiHeadAttention",
        "MultiHeadAttention",
        "FeedForward",
        "SublayerConnection",
        "TokenEmbedding",
    ]
    assert not any("variants" in kind.__module__ for kind in kinds)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_cross_attention_is_plain_with_every_position_encoding(positions: str) -> None:
    layer = components.cross_attention(ModelConfig(positions=positions))
    assert type(layer).__name__ == "MultiHeadAttention"


def test_arguments_come_from_the_configuration() -> None:
    some = ModelConfig(
        d_model=6,
        heads=3,
        d_key=4,
        d_value=5,
        d_ff=7,
        dropout=0.1,
        attention_dropout=0.2,
        feed_forward_dropout=0.3,
        positions="learned",
        max_positions=9,
        attention="blockwise",
    )
    attention = components.self_attention(some, name="attention", dtype="mixed_bfloat16")
    assert attention.name == "attention"
    assert attention.compute_dtype == "bfloat16"
    sizes = {"d_model": 6, "heads": 3, "key_width": 4, "value_width": 5, "dropout": 0.2}
    assert (sizes | {"attention": "blockwise"}).items() <= attention.get_config().items()
    positions = components.positional_encoding(some).get_config()
    assert {"max_positions": 9, "dropout": 0.1}.items() <= positions.items()
    feed_forward = components.feed_forward(some, "encoder").get_config()
    assert {"d_model": 6, "d_ff": 7, "dropout": 0.3}.items() <= feed_forward.items()
    assert components.sublayer_connection(some).get_config()["dropout"] == 0.1


def test_each_side_has_its_own_heads_widths_and_norms() -> None:
    config = ModelConfig(
        heads=8,
        decoder_heads=4,
        d_ff=7,
        decoder_d_ff=5,
        decoder_norm="pre",
        final_norm="encoder",
        layer_norm_epsilon=0.01,
    )
    encoder, decoder = config.side("encoder"), config.side("decoder")
    assert [components.self_attention(side).heads for side in (encoder, decoder)] == [8, 4]
    assert components.cross_attention(decoder).key_width == 512 // 4
    assert components.feed_forward(decoder, "decoder").d_ff == 5
    connections = [type(components.sublayer_connection(side)) for side in (encoder, decoder)]
    assert connections == [SublayerConnection, PreNormConnection]
    final = components.final_normalization(encoder)
    assert final is not None
    assert final.epsilon == 0.01
    assert components.final_normalization(decoder) is None


@pytest.mark.parametrize(
    ("norm", "final_norm", "expected"),
    [
        ("post", "auto", (False, False)),
        ("pre", "auto", (True, True)),
        ("post", "both", (True, True)),
        ("pre", "encoder", (True, False)),
        ("post", "decoder", (False, True)),
        ("pre", "none", (False, False)),
    ],
)
def test_final_normalizations(norm: Any, final_norm: Any, expected: tuple[bool, bool]) -> None:
    config = ModelConfig(norm=norm, final_norm=final_norm)
    sides = config.side("encoder"), config.side("decoder")
    found = tuple(components.final_normalization(side) is not None for side in sides)
    assert found == expected


class _NoResidual(SublayerConnection):
    """A layer without residual connection: LayerNorm(Sublayer(x))."""

    def call(self, x: Any, sublayer: Any, training: bool = False, real_tokens: Any = None) -> Any:
        return self.normalization(sublayer(x), training=training)


def test_a_variant_is_added_by_a_class_and_a_line_in_a_table(
    tiny_config: Any, scatter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = transformer.build(tiny_config())
    scatter(paper.weights)
    monkeypatch.setitem(components.CONNECTIONS, "post", _NoResidual)
    variant = transformer.build(tiny_config())
    variant.set_weights(paper.get_weights())
    source, target = tf.constant([[5, 6, 3]]), tf.constant([[2, 7, 5]])
    logits = variant({"source": source, "target": target})
    assert np.abs(logits - paper({"source": source, "target": target})).max() > 0.1
    # Incremental decoding computes the variant too.
    step, state = IncrementalDecoder(variant).start(source)
    state = step.select_and_reserve(state, [0], 3)
    for position in range(3):
        found, state = step(target[:, position], position, state)
        np.testing.assert_allclose(found, logits[:, position], atol=1e-5)


# Allowed imports


def _imports(file: Path) -> set[str]:
    """Return the modules of the package that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix(f"{PACKAGE}.") for name in found if name.startswith(PACKAGE)}


def test_the_model_imports_no_text_training_or_search() -> None:
    known = ("model", "config", "special_tokens", "errors", "compat")
    for file in FOLDER.rglob("*.py"):
        for name in _imports(file):
            assert name.split(".")[0] in known, f"{file} imports {name}"


@pytest.mark.parametrize(
    ("folder", "above"),
    [
        # Each folder, and the modules that use it.
        ("kernels", ["attention", "components", "encoder", "incremental", "variants"]),
        ("variants", ["components", "layer_stack", "encoder", "decoder", "transformer"]),
        (
            "variants/ablations",
            ["components", "layer_stack", "encoder", "decoder", "transformer", "variants"],
        ),
        (".", ["incremental"]),
    ],
)
def test_imports_have_one_direction(folder: str, above: list[str]) -> None:
    for file in (FOLDER / folder).glob("*.py"):
        for name in _imports(file):
            assert not name.startswith(tuple(f"model.{part}" for part in above)), file


def test_every_layer_is_registered() -> None:
    registered = {
        item
        for item in keras.saving.get_custom_objects().values()
        if item.__module__.startswith(f"{PACKAGE}.model")
    }
    layers = {
        f"{node.name}"
        for file in FOLDER.rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and any(d for d in node.decorator_list)
    }
    assert {item.__name__ for item in registered} == layers
    for item in registered:
        assert item.__doc__, item
