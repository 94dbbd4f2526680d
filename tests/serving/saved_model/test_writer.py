"""The SavedModel of an export: complete, small, described by its card."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer import system
from keras_transformer.evaluation.metrics import bleu
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving import warmup
from keras_transformer.serving.export import export
from keras_transformer.serving.saved_model import lint
from keras_transformer.serving.saved_model.writer import SavedModelWriter
from keras_transformer.serving.settings import ExportSettings


def quietly(line: str) -> None:
    """Ignore the progress."""


def size(folder) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_files_of_a_version(small_export, small_run) -> None:
    assert small_export.name == "1"
    assert {path.name for path in small_export.iterdir()} == {
        "saved_model.pb",
        "fingerprint.pb",
        "variables",
        "assets.extra",
        "export.json",
    }
    assert [path.name for path in small_export.parent.iterdir()] == ["1"]
    assert small_export.stat().st_mode & 0o777 == 0o755
    names = {name for name, _ in tf.train.list_variables(str(small_export / "variables/variables"))}
    # One variable for all biases and gains, and one for each matrix.
    matrices = sum(len(weight.shape) == 2 for weight in small_run.model().weights)
    assert len(names - {"_CHECKPOINTABLE_OBJECT_GRAPH"}) == matrices + 1


@pytest.mark.slow
def test_each_signature_is_traced_once(small_run: Run, tmp_path) -> None:
    writer = SavedModelWriter(small_run, small_run.config.search, 60, "float32")
    writer.write(tmp_path / "small", "small", quietly)
    writer.interface()
    counts = {
        key: function.experimental_get_tracing_count()
        for key, function in writer._module.signatures.items()
    }
    assert counts == dict.fromkeys(counts, 1)


def test_card(small_export, small_run) -> None:
    card = json.loads((small_export / "export.json").read_text())
    assert (card["name"], card["version"]) == ("small", 1)
    assert card["languages"] == {"source": "en", "target": "de"}
    assert card["search"] == {
        "beam": 3,
        "alpha": 0.6,
        "length_penalty": "gnmt",
        "n_best": 3,
        "max_extra": 4,
        "max_factor": 1.0,
        "max_length": 0,
        "min_length": 0,
        "no_repeat_ngram": 0,
        "allow_unknown": False,
        "suppress": [],
        "max_tokens": 60,
    }
    assert card["parameters"] == small_run.model().count_params()
    assert card["tokenizer"]["fingerprint"] == small_run.tokenizer().fingerprint
    assert card["model"]["d_model"] == 16
    assert card["versions"]["tensorflow"] == tf.__version__
    assert card["signatures"]["align"]["outputs"]["attention"] == {
        "dtype": "float32",
        "shape": [None, None, None],
    }
    assert set(card["signatures"]) == {
        "serving_default",
        "translate",
        "nbest",
        "options",
        "score",
        "align",
    }


def test_dev_bleu_is_that_of_the_exported_graph(small_export, small_run, signatures) -> None:
    dev = json.loads((small_export / "export.json").read_text())["dev"]
    pairs = small_run.dev_pairs()
    outputs = signatures["translate"](text=tf.constant([pair.source for pair in pairs]))
    texts = [text.decode() for text in outputs["translation"].numpy()]
    assert dev["sentences"] == len(pairs) == 4
    assert dev["bleu"] == bleu(texts, [[pair.target for pair in pairs]], "13a")
    assert "tok:13a" in dev["signature"]


def test_warm_up_requests_cover_every_signature_in_several_sizes(small_export, signatures) -> None:
    seen = set()
    for record in tf.data.TFRecordDataset(str(small_export / warmup.FILE)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "small"
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        (rows,) = {len(values) for values in inputs.values()}
        expected = signatures[request.model_spec.signature_name].structured_input_signature[1]
        assert set(inputs) == set(expected)
        seen.add((request.model_spec.signature_name, rows))
    assert seen == {(key, rows) for key in signatures for rows in (1, 8, 32)}


def test_progress(small_export, small_run, export_log) -> None:
    assert export_log[:-1] == [
        f"reading {small_run.path}",
        "writing version 1 of small",
        "checking for what TensorFlow Serving would refuse",
        "translating 4 sentences of the dev set",
    ]
    assert export_log[-1].endswith("on 4 sentences")


def test_size_is_that_of_the_weights_and_a_small_graph(small_export, small_run) -> None:
    weights = 4 * small_run.model().count_params()
    tokenizer = size(small_run.path / "tokenizer")
    assert size(small_export / "variables") < weights + 10_000
    graph = size(small_export) - size(small_export / "variables") - tokenizer
    assert graph < 400_000


def test_lint_is_part_of_the_export(small_run, tmp_path, monkeypatch) -> None:
    def refuse(directory) -> None:
        raise lint.LintError(f"no {[path.name for path in directory.iterdir()]}")

    monkeypatch.setattr(lint, "check", refuse)
    monkeypatch.setattr(tf.saved_model, "save", lambda module, folder, signatures: None)
    monkeypatch.setattr("keras_transformer.serving.saved_model.writer.compact", lambda folder: None)
    with pytest.raises(lint.LintError, match=r"no \['assets.extra'\]"):
        export(small_run, small_run.config.search, tmp_path / "m", ExportSettings(), quietly)
    assert not (tmp_path / "m").exists()


def test_disk_that_becomes_full(small_run, tmp_path, monkeypatch) -> None:
    def fail(module, folder, signatures) -> None:
        message = "Write failed; No space left on device [Op:SaveV2]"
        raise tf.errors.ResourceExhaustedError(None, None, message)

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(system.FileError, match="cannot be written: No space left on device$"):
        export(small_run, small_run.config.search, tmp_path / "m", ExportSettings(), quietly)
    assert not (tmp_path / "m").exists()


@pytest.fixture(scope="module")
def medium_run(small_run, tmp_path_factory) -> Run:
    """A run with matrices large enough for int8."""
    model = dataclasses.replace(small_run.config.model, d_model=96, d_ff=192)
    config = dataclasses.replace(small_run.config, model=model)
    run, _ = Run.create(tmp_path_factory.mktemp("medium") / "run", config, quietly)
    run.save_best(transformer.build(run.config.model))
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "share"), [("bfloat16", 0.5), ("int8", 0.25)])
def test_smaller_weights_make_a_smaller_version(medium_run, tmp_path, dtype, share) -> None:
    settings = ExportSettings(dtype=dtype, max_bleu_loss=100.0)
    version = export(medium_run, medium_run.config.search, tmp_path / "m", settings, quietly)
    parameters = 4 * medium_run.model().count_params()
    assert size(version / "variables") < (share + 0.05) * parameters
    card = json.loads((version / "export.json").read_text())
    assert card["dtype"] == dtype
    # Random weights: BLEU is below 1.
    names = {"bleu", "signature", "sentences", "float32_bleu", "float32_agreement"}
    assert set(card["dev"]) == names
    outputs = tf.saved_model.load(str(version)).signatures["nbest"](text=tf.constant(["A dog", ""]))
    assert np.isfinite(outputs["scores"]).all()
