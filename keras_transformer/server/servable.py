"""A version of a model in memory: a SavedModel, its signatures and its card."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.server.errors import STATUS, RestError
from keras_transformer.server.settings import SAVED_MODEL
from keras_transformer.server.signature import Arrays, Signature, Spec

CARD = "export.json"
WARMUP = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_WARMUP = 1000


@dataclass
class Servable:
    """A model that answers.

    Attributes:
        signatures: By key.
        definitions: The signatures as TF Serving's metadata shows them.
        card: What export.json says, {} where there is none.
        functions: What runs a signature; takes and returns arrays by name.
    """

    signatures: Mapping[str, Signature]
    functions: Mapping[str, Callable[[Arrays], Arrays]]
    definitions: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    def signature(self, name: str) -> Signature:
        """The signature of a name, ``serving_default`` for none.

        Raises:
            RestError: There is no such signature.
        """
        name = name or "serving_default"
        if name not in self.signatures:
            known = ", ".join(sorted(self.signatures))
            raise RestError(f"signature_name: expected one of {known}, got {name[:100]!r}")
        return self.signatures[name]

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        """Call a signature; blocks until the answer is there."""
        return self.functions[signature](inputs)


def load(folder: Path) -> Servable:
    """Load a SavedModel, and answer the warm-up requests that come with it.

    Args:
        folder: A version folder.

    Raises:
        Exception: What TensorFlow raises for a model that is broken, or whose warm-up fails.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations of tokenizers

    model = tf.saved_model.load(str(folder))
    definitions = _definitions(folder)
    signatures = {}
    functions = {}
    for key, concrete in model.signatures.items():
        signatures[key] = _signature(key, definitions[key])
        functions[key] = _function(model, concrete)
    card = folder / CARD
    servable = Servable(
        signatures,
        functions,
        {key: _as_json(definition) for key, definition in definitions.items()},
        json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {},
    )
    for name, inputs in read_warmup(folder / WARMUP):
        servable.run(servable.signature(name).name, inputs)
    return servable


def explain(error: BaseException) -> RestError:
    """An error of TensorFlow as a client may see it."""
    from tensorflow import errors

    if isinstance(error, RestError):
        return error
    code = "UNKNOWN"
    if isinstance(error, errors.OpError):
        names = {number: name for name, number in vars(errors).items() if name in STATUS}
        code = names.get(error.error_code, code)
    # What TensorFlow puts around a message says where in its graph, which helps no client.
    message = str(error).rpartition("<stack traces unavailable>")[2]
    message = re.split(r"\n\t \[\[| \[Op:", message)[0].strip()
    return RestError(message[:1000] or type(error).__name__, code)


def _function(model: Any, concrete: Any) -> Callable[[Arrays], Arrays]:
    import tensorflow as tf

    dtypes = {name: spec.dtype for name, spec in concrete.structured_input_signature[1].items()}

    def run(inputs: Arrays, _keep: Any = model) -> Arrays:
        # A signature does not keep its model's variables alive; `_keep` does.
        tensors = {name: tf.constant(value, dtypes[name]) for name, value in inputs.items()}
        return {name: np.asarray(value.numpy()) for name, value in concrete(**tensors).items()}

    return run


def _definitions(folder: Path) -> dict[str, Any]:
    """The signature definitions for serving in a SavedModel's file."""
    from keras_transformer.compat.tensorflow import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((folder / SAVED_MODEL).read_bytes())
    for graph in saved.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return dict(graph.signature_def)
    raise ValueError(f"{folder}: no graph with the tag 'serve'")


def _signature(key: str, definition: Any) -> Signature:
    from tensorflow import dtypes

    def specs(tensors: Mapping[str, Any]) -> dict[str, Spec]:
        found = {}
        for name, info in tensors.items():
            sizes = [None if size.size < 0 else size.size for size in info.tensor_shape.dim]
            shape = None if info.tensor_shape.unknown_rank else tuple(sizes)
            found[name] = Spec(dtypes.as_dtype(info.dtype).name, shape)
        return found

    return Signature(
        key, definition.method_name, specs(definition.inputs), specs(definition.outputs)
    )


def _as_json(definition: Any) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(
        definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def read_warmup(path: Path) -> Iterator[tuple[str, Arrays]]:
    """Signature names and inputs of recorded requests, none where there is no file.

    Args:
        path: A TFRecord of ``PredictionLog``.

    Raises:
        ValueError: More requests than a server would take.
    """
    if not path.is_file():
        return
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
        if number == MAX_WARMUP:
            raise ValueError(f"{path}: more than {MAX_WARMUP} warm-up requests")
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        yield request.model_spec.signature_name, inputs
