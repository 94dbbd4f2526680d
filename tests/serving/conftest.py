"""A small run with random weights and its export, shared by all tests of this folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.config import Config, DataConfig, ModelConfig, SearchConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings

PAIRS = [
    ("A dog runs over the green grass.", "Ein Hund rennt über das grüne Gras."),
    ("Two men are talking, and a woman listens.", "Zwei Männer reden, und eine Frau hört zu."),
    ("The child sees a red ball.", "Das Kind sieht einen roten Ball."),
    ("Nobody knows where the old train goes.", "Niemand weiß, wohin der alte Zug fährt."),
]


@pytest.fixture(scope="session")
def small_run(tmp_path_factory, talkative) -> Run:
    """A run with separate vocabularies and random weights that prefer some tokens clearly."""
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
def translator(small_run) -> Translator:
    """Python's translator of the run, with the whole beam as hypotheses."""
    search = dataclasses.replace(small_run.config.search, n_best=small_run.config.search.beam)
    return Translator(small_run.model(), small_run.tokenizer(), search, small_run.config.data)


@pytest.fixture(scope="session")
def export_log() -> list[str]:
    """The progress of ``small_export``."""
    return []


@pytest.fixture(scope="session")
def small_export(small_run, export_log, tmp_path_factory) -> Path:
    """The exported version: beam 3, n_best 3, at most 4 tokens more than the source."""
    folder = tmp_path_factory.mktemp("exports") / "small"
    return export(small_run, small_run.config.search, folder, ExportSettings(), export_log.append)


@pytest.fixture(scope="session")
def signatures(small_export):
    """The signatures of the export, loaded by Python."""
    return tf.saved_model.load(str(small_export)).signatures
