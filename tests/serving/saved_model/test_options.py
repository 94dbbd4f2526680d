"""Export of a model with every option that the paper has not: as Python's translator, in C++."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings
from tests.serving.saved_model.test_cpp_runtime import RELEASED, ask
from tests.support.model_options import ALL

LINES = ["A dog runs over the green grass.", "", "Nobody knows.", "The child sees a red ball."]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(small_run, talkative, tmp_path_factory) -> Run:
    # GELU: the other activations have no operation of their own.
    model = dataclasses.replace(small_run.config.model, **(ALL | {"activation": "gelu"}))
    config = dataclasses.replace(small_run.config, model=model)
    path = tmp_path_factory.mktemp("options") / "run"
    made, _ = Run.create(path, config, lambda line: None)
    made.save_best(talkative(transformer.build(made.config.model)))
    return made


def test_translations_equal_the_python_translator(run, tmp_path) -> None:
    config = run.config
    translator = Translator(run.model(), run.tokenizer(), config.search, config.data)
    expected = translator.translate(LINES)
    texts, scores = [item.text for item in expected], [item.score for item in expected]
    assert len(set(texts)) > 2
    path: Path = export(run, config.search, tmp_path / "m", ExportSettings(), lambda line: None)
    found = tf.saved_model.load(str(path)).signatures["translate"](text=tf.constant(LINES))
    assert [item.decode() for item in found["translation"].numpy()] == texts
    np.testing.assert_allclose(found["score"], scores, atol=1e-4)
    for libraries in (None, RELEASED):
        if libraries is None or libraries.exists():
            (reply,) = ask(path, [{"inputs": {"text": LINES}}], libraries)
            assert reply["outputs"]["translation"] == texts
            np.testing.assert_allclose(reply["outputs"]["score"], scores, atol=1e-4)


def test_bfloat16_weights_score_alike(run, tmp_path) -> None:
    config = run.config
    settings = ExportSettings(dtype="bfloat16", max_bleu_loss=100.0)
    path = export(run, config.search, tmp_path / "m", settings, lambda line: None)
    signature = tf.saved_model.load(str(path)).signatures["score"]
    target = ["Ein Hund.", "Das Kind sieht einen roten Ball."]
    found = signature(source=tf.constant(LINES[::2]), target=tf.constant(target))
    translator = Translator(run.model(), run.tokenizer(), config.search, config.data)
    expected = [item.log_probability for item in translator.score(LINES[::2], target)]
    np.testing.assert_allclose(found["log_probability"], expected, rtol=0.1)
