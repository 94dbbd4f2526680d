"""Loaded SavedModels and their warm-up requests."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from keras_transformer.formats import FormatError
from keras_transformer.server.servable import load, read_warmup, to_rest_error
from keras_transformer.server.signature import Spec
from keras_transformer.serving import card


@pytest.fixture
def version(saved_model, tmp_path):
    """A copy of the version folder."""
    return shutil.copytree(saved_model, tmp_path / "1")


def record(path, *texts, signature="serving_default"):
    """Write warm-up requests with one text each."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for text in texts:
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = signature
            request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
            writer.write(log.SerializeToString())


def test_signatures_are_those_of_the_saved_model(version):
    servable = load(version)
    assert sorted(servable.signatures) == [
        "align",
        "nbest",
        "options",
        "serving_default",
        "translate",
    ]
    options = servable.signatures["options"]
    assert options.inputs["max_extra"] == Spec("int32", (None,))
    assert options.outputs["truncated"] == Spec("bool", (None,))
    assert (options.by_row, options.joinable) == (True, True)
    align = servable.signatures["align"]
    assert (align.by_row, align.joinable) == (True, False)  # padded to the longest text
    assert servable.card["search"] == {"beam": 4, "n_best": 2}


def test_warmup_requests_run(version):
    path = version / "assets.extra" / "tf_serving_warmup_requests"
    assert list(read_warmup(path)) == []
    record(path, "a", "\u00e4", signature="nbest")
    found = [(name, inputs["text"].tolist()) for name, inputs in read_warmup(path)]
    assert found == [("nbest", [b"a"]), ("nbest", ["\u00e4".encode()])]
    load(version)


def test_a_failed_warmup_request_fails_the_version(version):
    record(version / "assets.extra" / "tf_serving_warmup_requests", "a", "explode")
    with pytest.raises(Exception, match="it explodes") as caught:
        load(version)
    assert to_rest_error(caught.value).code == "INVALID_ARGUMENT"
    assert str(to_rest_error(caught.value)).startswith("assertion failed: [it explodes]")
    load(version, warm_up=False)


def test_a_broken_saved_model(version):
    (version / "saved_model.pb").write_bytes(b"nonsense")
    with pytest.raises(Exception, match=r".") as caught:
        load(version)
    assert to_rest_error(caught.value).status == 500


def test_an_export_of_a_later_version_is_refused(version):
    card.write(version, {"format_number": 2, "versions": {"keras-translate": "0.4"}})
    with pytest.raises(FormatError, match="install keras-translate 0.4 or later") as caught:
        load(version)
    assert str(to_rest_error(caught.value)) == str(caught.value)


def test_strings_keep_their_bytes(version):
    texts = np.array([b"a\0", b"\xff", b""], dtype=object)
    outputs = load(version).run("serving_default", {"text": texts})
    assert outputs["translation"].tolist() == [b"A\0", b"\xff", b""]
