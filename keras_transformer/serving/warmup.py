"""Warm-up requests of a SavedModel.

TensorFlow Serving runs them before a version becomes available, and refuses the version if one
fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

FILE = Path("assets.extra") / "tf_serving_warmup_requests"
BATCHES = (1, 8, 32)

# Different lengths, one of them blank.
_SENTENCES = (
    "Hello.",
    "This is a sentence of a usual length, with a comma in it.",
    "",
    "The first request after a start would wait until every part of the graph has run once, so "
    "that a server sends some requests to itself before it accepts those of its users.",
)


def write(directory: Path, name: str, signatures: Mapping[str, Sequence[str]]) -> None:
    """Write the warm-up file of a SavedModel.

    Args:
        directory: The SavedModel.
        name: The model's name in the requests.
        signatures: Input names by signature.
    """
    file = directory / FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for request in _requests(name, signatures):
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            # The order of a map's entries is random otherwise, and two exports would differ.
            writer.write(log.SerializeToString(deterministic=True))


def _requests(
    name: str, signatures: Mapping[str, Sequence[str]]
) -> Iterator[predict_pb2.PredictRequest]:
    for signature, inputs in signatures.items():
        for size in BATCHES:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for key in inputs:
                request.inputs[key].CopyFrom(tf.make_tensor_proto(_values(key, size)))
            yield request


def _values(key: str, size: int) -> np.ndarray:
    """Return a batch of values for the input ``key``."""
    if key == "alpha":
        return np.full(size, 1.0, np.float32)
    if key == "max_extra":
        return np.full(size, 5, np.int32)
    return np.array([_SENTENCES[row % len(_SENTENCES)].encode() for row in range(size)], object)
