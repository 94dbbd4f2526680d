"""A run whose sources have no end token: training, translation, scores and export."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import from_dict
from keras_transformer.inference.translator import Translator
from keras_transformer.lab.measurements import dev_batch
from keras_transformer.run import Run
from keras_transformer.serving.saved_model.module import ServedTranslator
from keras_transformer.serving.saved_model.weights import Weights
from keras_transformer.special_tokens import END, PAD, START
from keras_transformer.training import trainer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder, drawn = tmp_path_factory.mktemp("source_end"), random.Random(0)
    for name, count in (("train", 300), ("dev", 12)):
        lines = [" ".join(drawn.choices("abcdefgh", k=drawn.randint(1, 6))) for _ in range(count)]
        (folder / f"{name}.a").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{name}.b").write_text("".join(f"{line[::-1]}\n" for line in lines))
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
    data = {"source": "a", "target": "b", "vocabulary_size": 300, "source_end": False}
    config = from_dict(
        {
            "model": sizes | {"embeddings": "untied"},
            "data": data | {"train": str(folder / "train"), "dev": str(folder / "dev")},
            "train": {"max_steps": 4, "batch_tokens": 200, "dev_sentences": 4, "average": 1},
            "search": {"beam": 2, "n_best": 2, "max_extra": 3, "max_factor": 1.5},
        }
    )
    return trainer.train(config, folder / "run")


@pytest.fixture(scope="module")
def model(run, talkative):
    """The trained model with weights that prefer some tokens clearly."""
    return talkative(run.model())


@pytest.fixture(scope="module")
def lines(run) -> list[str]:
    return [*(pair.source for pair in run.dev_pairs()), "", " ", "a", "ä ö 中", "a b c d " * 99]


def test_training_reads_sources_without_end(run) -> None:
    prepared = run.prepared(lambda line: None)
    batch = prepared.train.batch(range(40))
    assert END not in batch["source"]
    assert (batch["labels"] == END).any(axis=1).all()
    assert ((batch["source"] != PAD).sum(axis=1) == prepared.train.source_lengths[:40]).all()
    assert END not in dev_batch(run).source


def test_the_network_reads_the_ids_alone(run, model) -> None:
    translator = Translator(model, run.tokenizer(), run.config.search, run.config.data)
    (score,) = translator.score(["a b"], ["b a"])
    source, target = (
        side.encode([text])[0]
        for side, text in (
            (translator.tokenizer.source, "a b"),
            (translator.tokenizer.target, "b a"),
        )
    )
    inputs = {"source": tf.constant([source]), "target": tf.constant([[START, *target]])}
    chances = tf.nn.log_softmax(model(inputs)[0]).numpy()
    expected = chances[range(len(target) + 1), [*target, END]]
    np.testing.assert_allclose(score.by_token, expected, atol=1e-4)
    (translation,) = translator.translate(["a b"], attention=True)
    attention = translation.attention
    assert (
        attention.source
        == attention.source_pieces
        == tuple(translator.tokenizer.source.pieces(source))
    )
    assert attention.weights.shape[1] == len(source)
    assert attention.source_words == (0, 1)


def test_blank_lines_and_single_tokens(run, model) -> None:
    translator = Translator(model, run.tokenizer(), run.config.search, run.config.data)
    blank, letter = translator.translate([" ", "a"])
    assert (blank.text, blank.score) == ("", 0.0)
    assert letter.score < 0
    (alone,) = translator.score([""], ["a"])  # the source is END alone
    inputs = {"source": tf.constant([[END]]), "target": tf.constant([[START]])}
    first = translator.tokenizer.target.encode(["a"])[0][0]
    expected = tf.nn.log_softmax(model(inputs)[0, 0])[first]
    assert alone.by_token[0] == pytest.approx(float(expected), abs=1e-4)


def test_the_graph_of_the_export_equals_python(run, model, lines) -> None:
    tokenizer, data = run.tokenizer(), dataclasses.replace(run.config.data, max_tokens=20)
    side = tokenizer.target
    common = Translator(model, tokenizer, run.config.search, data).translate(lines)
    ids = [token for row in side.encode([item.text for item in common]) for token in row]
    most_frequent = side.pieces([max(set(ids), key=ids.count)])
    search = dataclasses.replace(run.config.search, suppress=most_frequent, allow_unknown=True)
    module = ServedTranslator(model, Weights(model), tokenizer, search, 20, source_end=False)
    expected = Translator(model, tokenizer, search, data).translate(lines)
    assert [item.text for item in expected] != [item.text for item in common]
    found = module.translate(tf.constant(lines))
    assert [text.decode() for text in found["translation"].numpy()] == [
        item.text for item in expected
    ]
    np.testing.assert_allclose(found["score"], [item.score for item in expected], atol=1e-4)
    cut = [len(ids) > 20 for ids in tokenizer.source.encode(lines)]
    assert sum(cut) == 1
    assert found["truncated"].numpy().tolist() == [
        was_cut or not item.finished for was_cut, item in zip(cut, expected, strict=True)
    ]
    targets = [item.text for item in expected]
    scored = module.score(tf.constant(lines), tf.constant(targets))["log_probability"]
    own = Translator(model, tokenizer, search, data).score(lines, targets)
    np.testing.assert_allclose(scored, [score.log_probability for score in own], atol=1e-3)
    pieces = module.align(tf.constant(["a b"]))["source_pieces"].numpy()[0]
    assert [piece.decode() for piece in pieces] == tokenizer.source.pieces(
        tokenizer.source.encode(["a b"])[0]
    )


def test_ctranslate2_adds_no_end(run, lines, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the optional package is missing")
    from keras_transformer.serving.ctranslate2.writer import CTranslate2Writer

    search = dataclasses.replace(
        run.config.search, beam=1, n_best=1, max_factor=0.0, max_extra=9, suppress=("▁a",)
    )
    writer = CTranslate2Writer(run, search, 60, "float32")
    writer.write(tmp_path, "m", lambda line: None)
    filled = [line for line in lines if line.strip()][:12]
    expected = Translator(run.model(), run.tokenizer(), search, run.config.data).translate(filled)
    assert writer.translate(tmp_path, filled) == [item.text for item in expected]
    options = writer.interface()["translate_batch"]
    assert options["max_decoding_length"] == 9
    assert options["suppress_sequences"] == [["<pad>"], ["<s>"], ["▁a"]]
    # The same source with an end token has another score.
    engine = ctranslate2.Translator(str(tmp_path))
    tokens = writer.tokenizer.source.pieces(writer.tokenizer.source.encode(["a b"])[0])
    without, with_end = (
        engine.score_batch([source], [["▁b"]])[0].log_probs[0]
        for source in (tokens, [*tokens, "</s>"])
    )
    assert abs(without - with_end) > 1e-4
