"""A loaded SavedModel with its signatures and its card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer import system
from keras_transformer.server.errors import STATUS, RestError
from keras_transformer.server.settings import SAVED_MODEL
from keras_transformer.server.signature import Arrays, Signature, Spec
from keras_transformer.serving import card
from keras_transformer.utf8_paths import utf8_path

WARMUP = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_WARMUP = 1000
"""Most warm-up requests that TensorFlow Serving accepts."""


@dataclass
class Servable:
    """A loaded model.

    Attributes:
        signatures: Signatures by key.
        functions: Function of each signature, from and to arrays by name.
        definitions: Signatures in the form of TensorFlow Serving's metadata.
        card: Contents of export.json, {} if missing.
    """

    signatures: Mapping[str, Signature]
    functions: Mapping[str, Callable[[Arrays], Arrays]]
    definitions: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    def signature(self, name: str) -> Signature:
        """Return the signature of a name, ``serving_default`` for "".

        Raises:
            RestError: There is no such signature.
        """
        name = name or "serving_default"
        if name not in self.signatures:
            known = ", ".join(sorted(self.signatures))
            raise RestError(f"signature_name: expected one of {known}, got {name[:100]!r}")
        return self.signatures[name]

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        """Call a signature; blocks until the outputs are ready."""
        return self.functions[signature](inputs)


def load(folder: Path, warm_up: bool = True) -> Servable:
    """Load a SavedModel and run its warm-up requests.

    Args:
        folder: A version folder.
        warm_up: Whether to run them; without them, the first request of each signature waits.

    Raises:
        Exception: TensorFlow cannot load the model, or a warm-up request fails.
        UserError: The card is damaged, or a file is no file.
    """
    for path in folder.rglob("*"):
        if not path.is_dir():
            system.check_regular(path)  # TensorFlow would wait for ever for a pipe
    description = card.read(folder)
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations of tokenizers

    folder = utf8_path(folder)
    model = tf.saved_model.load(str(folder))
    definitions = _definitions(folder)
    signatures = {}
    functions = {}
    for key, concrete in model.signatures.items():
        signatures[key] = _signature(key, definitions[key])
        functions[key] = _function(model, concrete)
    servable = Servable(
        signatures,
        functions,
        {key: _as_json(definition) for key, definition in definitions.items()},
        description,
    )
    for name, inputs in read_warmup(folder / WARMUP) if warm_up else ():
        servable.run(servable.signature(name).name, inputs)
    return servable


def to_rest_error(error: BaseException) -> RestError:
    """Convert an error of TensorFlow to one for the client."""
    from tensorflow import errors

    if isinstance(error, RestError):
        return error
    code = "UNKNOWN"
    if isinstance(error, errors.OpError):
        names = {number: name for name, number in vars(errors).items() if name in STATUS}
        code = names.get(error.error_code, code)
    # TensorFlow puts graph locations around its message; they do not help a client.
    message = str(error).rpartition("<stack traces unavailable>")[2]
    message = re.split(r"\n\t \[\[| \[Op:", message)[0].strip()
    return RestError(message[:1000] or type(error).__name__, code)


def _function(model: Any, concrete: Any) -> Callable[[Arrays], Arrays]:
    import tensorflow as tf

    dtypes = {name: spec.dtype for name, spec in concrete.structured_input_signature[1].items()}

    def run(inputs: Arrays, _keep: Any = model) -> Arrays:
        # `_keep` keeps the model's variables alive; a signature alone does not.
        tensors = {name: tf.constant(value, dtypes[name]) for name, value in inputs.items()}
        return {name: np.asarray(value.numpy()) for name, value in concrete(**tensors).items()}

    return run


def _definitions(folder: Path) -> dict[str, Any]:
    """Return the signature definitions of the graph for serving."""
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
    """Yield signature name and inputs of each warm-up request; nothing for a missing file.

    Args:
        path: A TFRecord of ``PredictionLog``.

    Raises:
        ValueError: The file has more requests than TensorFlow Serving accepts.
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
