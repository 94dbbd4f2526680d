"""A small run with random weights, and its export: whatever it says, it must say it reliably."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.config import Config, DataConfig, ModelConfig, SearchConfig
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.saved_model.export import export
from keras_transformer.serving.settings import ExportSettings

PAIRS = [
    ("A dog runs over the green grass.", "Ein Hund rennt über das grüne Gras."),
    ("Two men are talking, and a woman listens.", "Zwei Männer reden, und eine Frau hört zu."),
    ("The child sees a red ball.", "Das Kind sieht einen roten Ball."),
    ("Nobody knows where the old train goes.", "Niemand weiß, wohin der alte Zug fährt."),
]


@pytest.fixture(scope="session")
def small_run(tmp_path_factory, talkative) -> Run:
    """A run with separate vocabularies, whose weights are random but sure of what they say."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("train", "dev"):
        for place, language in enumerate(("en", "de")):
            lines = [pair[place] for pair in PAIRS] * (5 if name == "train" else 1)
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = Config(
        model=ModelConfig(
            encoder_layers=1, decoder_layers=2, d_model=16, heads=2, d_ff=32, embeddings="untied"
        ),
        data=DataConfig(
            train=str(folder / "train"),
            dev=str(folder / "dev"),
            source="en",
            target="de",
            vocabulary_size=400,
            joint=False,
            max_tokens=60,
        ),
        search=SearchConfig(beam=3, alpha=0.6, max_extra=4, batch_tokens=100),
    )
    run, _ = Run.create(folder / "run", config, lambda line: None)
    run.save_best(talkative(transformer.build(run.config.model)))
    return run


@pytest.fixture(scope="session")
def small_export(small_run, tmp_path_factory) -> Path:
    """The version folder of its export: beam 3, n 3, at most 4 tokens more than the source."""
    folder = tmp_path_factory.mktemp("exports") / "small"
    return export(small_run, small_run.config.search, folder, ExportSettings(), lambda line: None)


@pytest.fixture(scope="session")
def signatures(small_export):
    """The functions of the export, as TensorFlow loads them."""
    return tf.saved_model.load(str(small_export)).signatures
