"""docs/walkthrough.md is true for the built-in model."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig, SearchConfig
from keras_transformer.model import transformer
from tests.docs.numbers import differences
from tools.generated_blocks import replace_blocks
from tools.walkthrough import forward, probe, search
from tools.walkthrough.__main__ import COMMAND, FILE, blocks

SMALL = {"source_vocabulary_size": 12, "target_vocabulary_size": 12, "d_model": 8, "heads": 2}
LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "d_ff": 16}


@pytest.mark.slow
def test_page_has_the_numbers_of_the_model() -> None:
    page = FILE.read_text(encoding="utf-8")

    assert differences(page, replace_blocks(page, blocks())) == [], f"run {COMMAND}"


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_traces_end_in_the_output_of_the_model(norm: str) -> None:
    model = transformer.build(ModelConfig(**SMALL, **LAYERS, norm=norm))
    source, target = tf.constant([[5, 6, 7, 3]]), tf.constant([[2, 8, 9]])
    encoded = list(forward.encoder_trace(model, source))
    decoded = list(forward.decoder_trace(model, encoded[-1].value, source, target))
    logits = transformer.projection(model).project(decoded[-1].value)

    assert [item.part for item in encoded][1:3] == ["self-attention", "feed-forward"]
    assert len(encoded) == 1 + 2 * 2 + (norm == "pre")
    assert len(decoded) == 1 + 2 * 3 + (norm == "pre")
    assert np.allclose(logits, model({"source": source, "target": target}), atol=1e-5)


@pytest.mark.slow
def test_beam_is_that_of_the_search() -> None:
    from keras_transformer.inference.inference_functions import InferenceFunctions

    model = transformer.build(ModelConfig(**SMALL, **LAYERS))
    options = SearchConfig(beam=3, max_extra=4)
    source = np.array([[5, 6, 7, 3]], np.int32)
    steps, result = search.beams(model, tf.constant(source), options)
    expected = InferenceFunctions(model, options).search(source)

    assert result.tokens.numpy().tolist() == expected.tokens.numpy().tolist()
    assert np.allclose(result.scores, expected.scores, atol=1e-5)
    assert len(steps) <= 3 + 4
    assert all(len(step.live) <= 3 for step in steps)


def test_prose_has_no_number_of_the_model() -> None:
    """Numbers outside the generated blocks would become false with another model."""
    page = FILE.read_text(encoding="utf-8")
    prose = re.sub(r"<!-- begin: ([\w-]+) -->.*?<!-- end: \1 -->", "", page, flags=re.DOTALL)

    assert re.findall(r"(?<![\w.])\d+\.\d\d+", prose) == []


def test_probe_reads_positions_and_only_those() -> None:
    random = np.random.default_rng(0)
    noise = random.normal(size=(200, 5, 8))
    positions = np.tile(random.normal(size=(1, 5, 8)), (200, 1, 1))

    assert probe.accuracy(positions + 0.1 * noise) == 1.0
    assert probe.accuracy(noise) < 0.4  # chance is 0.2
