"""Export of a recurrent model: the same answers as Python's translator."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings

LINES = ["A dog runs over the green grass.", "", "Nobody knows.", "The child sees a red ball."]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recurrent_run(small_run, talkative, tmp_path_factory) -> Run:
    model = ModelConfig(
        architecture="recurrent",
        encoder_layers=2,
        decoder_layers=2,
        d_model=16,
        embeddings="untied",
    )
    config = dataclasses.replace(small_run.config, model=model)
    run, _ = Run.create(tmp_path_factory.mktemp("recurrent") / "run", config, lambda line: None)
    run.save_best(talkative(transformer.build(run.config.model)))
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
