"""A SavedModel in TensorFlow's C++ runtime, as TensorFlow Serving runs it.

  python -m tests.support.tf_c_session export/models/en-de/1 < requests.jsonl

A model that loads in Python may still fail in a server. This program uses the server's loader
from the libraries in the installed wheels, with XLA disabled as in a server with default options.
A request is a line of JSON; "signature" is serving_default if missing:

  {"signature": "nbest", "inputs": {"text": ["A dog runs."]}}

Text that is not UTF-8 is {"b64": "..."}. The reply is a line with "outputs", "shapes" and
"seconds", or with "error". Exit status: 0 done, 1 a request failed, 2 the model does not load.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_char_p, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support.c_api import CApiError, Output, Runtime


class TensorInfo(NamedTuple):
    """Place of an input or output in the graph."""

    name: str
    """Operation and output index, such as ``serving_default_text:0``."""
    dtype: int
    """TF_DataType."""


class Signature(NamedTuple):
    """Inputs and outputs of a signature by name."""

    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]


class SavedModelSession:
    """A SavedModel in a session of the C++ runtime.

    Args:
        runtime: The runtime.
        directory: The version folder, which holds ``saved_model.pb``.

    Raises:
        CApiError: The model does not load; the message is TensorFlow's.
    """

    def __init__(self, runtime: Runtime, directory: Path) -> None:
        self._runtime = runtime
        self._graph = runtime.call("TF_NewGraph")
        options = runtime.call("TF_NewSessionOptions")
        meta_graph = runtime.call("TF_NewBuffer")
        tags = (c_char_p * 1)(b"serve")
        folder = os.fsencode(directory)
        try:
            self._session = runtime.checked(
                *("TF_LoadSessionFromSavedModel", options, None, folder, tags, len(tags)),
                *(self._graph, meta_graph),
            )
            found = meta_graph.contents
            self.signatures = read_signatures(ctypes.string_at(found.data, found.length))
        finally:
            runtime.call("TF_DeleteBuffer", meta_graph)
            runtime.call("TF_DeleteSessionOptions", options)

    def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run a signature.

        Args:
            signature: Its key, such as ``serving_default``.
            inputs: Arrays or nested lists for exactly the signature's inputs; text as bytes.

        Returns:
            The outputs by name; text as arrays of ``bytes`` (dtype object).

        Raises:
            CApiError: There is no such signature, the inputs differ from its own, or it failed.
        """
        if signature not in self.signatures:
            keys = ", ".join(sorted(self.signatures))
            raise CApiError(f"signature: expected one of {keys}; got {signature}")
        tensors = self.signatures[signature]
        if set(inputs) != set(tensors.inputs):
            expected, got = (
                ", ".join(sorted(names)) or "none" for names in (tensors.inputs, inputs)
            )
            raise CApiError(f"inputs of {signature}: expected {expected}; got {got}")
        with contextlib.ExitStack() as stack:
            feeds = [
                stack.enter_context(self._runtime.tensor(inputs[name], tensor.dtype))
                for name, tensor in tensors.inputs.items()
            ]
            results = (c_void_p * len(tensors.outputs))()
            self._runtime.checked(
                *("TF_SessionRun", self._session, None),
                *(self._places(tensors.inputs), (c_void_p * len(feeds))(*feeds), len(feeds)),
                *(self._places(tensors.outputs), results, len(results)),
                *(None, 0, None),
            )
            # Read before the inputs are freed: an output may share an input's memory.
            values = [self._runtime.take(result) for result in results]
        return dict(zip(tensors.outputs, values, strict=True))

    def close(self) -> None:
        """Free the session; no call may follow."""
        self._runtime.checked("TF_CloseSession", self._session)
        self._runtime.checked("TF_DeleteSession", self._session)
        self._runtime.call("TF_DeleteGraph", self._graph)

    def _places(self, tensors: Mapping[str, TensorInfo]) -> Any:
        outputs = []
        for tensor in tensors.values():
            name, _, index = tensor.name.partition(":")
            operation = self._runtime.call("TF_GraphOperationByName", self._graph, name.encode())
            outputs.append(Output(operation, int(index)))
        return (Output * len(outputs))(*outputs)


def read_signatures(meta_graph: bytes) -> dict[str, Signature]:
    """Return the signatures in a serialized MetaGraphDef, without the initializer.

    TensorFlow's protobuf classes would import TensorFlow, so the few fields are parsed here.
    """
    signatures = {}
    for key, definition in _entries(meta_graph, field=5):
        signatures[key] = Signature(_tensors(definition, field=1), _tensors(definition, field=2))
    signatures.pop("__saved_model_init_op", None)
    return signatures


def _tensors(definition: bytes, field: int) -> dict[str, TensorInfo]:
    """Return the inputs (field 1) or outputs (field 2) of a SignatureDef, sorted by name."""
    tensors = {}
    for name, info in sorted(_entries(definition, field)):
        values = dict(_fields(info))
        tensors[name] = TensorInfo(values[1].decode(), values.get(2, 0))
    return tensors


def _entries(message: bytes, field: int) -> Iterator[tuple[str, bytes]]:
    """Yield keys and values of a map in a protocol buffer."""
    for number, entry in _fields(message):
        if number == field:
            values = dict(_fields(entry))
            yield values[1].decode(), values.get(2, b"")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value (int or bytes) of each field of a protocol buffer."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[place : place + size]
        place += size


def installed() -> Path:
    """Return the site-packages folder of TensorFlow without importing it.

    Raises:
        CApiError: TensorFlow is not installed.
    """
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        raise CApiError("tensorflow is not installed; name a folder with --libraries")
    return Path(found.origin).parents[1]


def reply(model: SavedModelSession, line: str) -> dict[str, Any]:
    """Return the reply to a request.

    Args:
        model: The model.
        line: The request as JSON.

    Returns:
        ``outputs`` (nested lists by name), ``shapes`` and ``seconds``, or ``error``.
    """
    try:
        request = json.loads(line)
        inputs = {name: _decode_json(values) for name, values in request["inputs"].items()}
        start = time.perf_counter()
        outputs = model.run(request.get("signature", "serving_default"), inputs)
        seconds = time.perf_counter() - start
    except CApiError as error:
        return {"error": str(error)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"error": f'expected {{"signature": ..., "inputs": {{...}}}}: {error}'}
    return {
        "outputs": {name: _encode_json(values.tolist()) for name, values in outputs.items()},
        "shapes": {name: list(values.shape) for name, values in outputs.items()},
        "seconds": round(seconds, 6),
    }


def _decode_json(values: Any) -> Any:
    """Convert values from JSON: text becomes bytes."""
    if isinstance(values, list):
        return [_decode_json(value) for value in values]
    if isinstance(values, dict):
        return base64.b64decode(values["b64"], validate=True)
    # JSON may contain half of a surrogate pair, UTF-8 may not.
    return values.encode(errors="surrogatepass") if isinstance(values, str) else values


def _encode_json(values: Any) -> Any:
    """Convert values for JSON: bytes become text."""
    if isinstance(values, list):
        return [_encode_json(value) for value in values]
    if not isinstance(values, bytes):
        return values
    try:
        return values.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(values).decode()}


def main(argv: Sequence[str] | None = None) -> int:
    """Reply to the requests on standard input."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.tf_c_session",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="A version folder.")
    parser.add_argument(
        "--libraries",
        type=Path,
        metavar="DIR",
        help="A site-packages folder with tensorflow (or tensorflow-cpu) and tensorflow-text "
        "of another release; default: the installed ones.",
    )
    options = parser.parse_args(argv)
    # Read by TensorFlow: the results must not depend on a GPU.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    try:
        model = SavedModelSession(Runtime(options.libraries or installed()), options.directory)
    except CApiError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    failed = False
    for line in sys.stdin:
        result = reply(model, line)
        failed = failed or "error" in result
        print(json.dumps(result, ensure_ascii=False), flush=True)
    model.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
