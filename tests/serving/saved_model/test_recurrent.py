"""Export of a recurrent model: the same answers as Python's translator."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings
from keras_transformer.special_tokens import END

LINES = ["A dog runs over the green grass.", "", "Nobody knows.", "The child sees a red ball."]

pytestmark = pytest.mark.slow


def _random(model: keras.Model) -> keras.Model:
    """Give a model weights whose most probable tokens do not depend on rounding."""
    random = np.random.default_rng(3)
    for weight in model.weights:
        if len(weight.shape) == 2:  # wide, but not so wide that all states are at their limits
            scale = 2.0 if "embedding" in weight.path else 2.0 * weight.shape[0] ** -0.5
            weight.assign(random.normal(0.0, scale, weight.shape))
    table = random.normal(0.0, 3.0, transformer.projection(model).matrix.shape)
    table[END + 1 : END + 257] = 0.0  # words rather than bytes
    transformer.projection(model).matrix.assign(table)
    return model


@pytest.fixture(scope="module")
def recurrent_run(small_run, tmp_path_factory) -> Run:
    model = ModelConfig(
        architecture="recurrent",
        encoder_layers=2,
        decoder_layers=2,
        d_model=16,
        embeddings="untied",
    )
    config = dataclasses.replace(small_run.config, model=model)
    run, _ = Run.create(tmp_path_factory.mktemp("recurrent") / "run", config, lambda line: None)
    run.save_best(_random(transformer.build(run.config.model)))
    return run


@pytest.fixture(scope="module")
def signatures(recurrent_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "recurrent"
    search = recurrent_run.config.search
    path: Path = export(recurrent_run, search, folder, ExportSettings(), lambda line: None)
    return tf.saved_model.load(str(path)).signatures


def test_translations_equal_the_python_translator(recurrent_run, signatures) -> None:
    config = recurrent_run.config
    translator = Translator(
        recurrent_run.model(), recurrent_run.tokenizer(), config.search, config.data
    )
    expected = translator.translate(LINES, attention=True)
    found = signatures["translate"](text=tf.constant(LINES))
    assert [item.decode() for item in found["translation"].numpy()] == [
        item.text for item in expected
    ]
    assert len({item.text for item in expected}) > 2
    np.testing.assert_allclose(found["score"], [item.score for item in expected], atol=1e-4)
    aligned = signatures["align"](text=tf.constant(LINES))
    for place, item in enumerate(expected):
        if item.attention is not None:
            rows, columns = item.attention.weights.shape
            weights = aligned["attention"][place, :rows, :columns]
            np.testing.assert_allclose(weights, item.attention.weights, atol=1e-5)
