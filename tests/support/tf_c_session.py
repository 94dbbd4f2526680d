"""Run a SavedModel where TF Serving runs it: in TensorFlow's C++ runtime, without Python's.

  python -m tests.support.tf_c_session export/models/en-de/1 < requests.jsonl

What loads in Python can still fail in a server. This loads a version folder with the loader
of TF Serving, out of the installed wheels' own libraries, with XLA switched off as in a
server without options. A request is a line of JSON:

  {"signature": "nbest", "inputs": {"text": ["A dog runs."]}}

Without "signature" it is serving_default. Text that is not UTF-8 is {"b64": "..."}, as in TF
Serving's REST. The answer is a line with "outputs", their "shapes" and the "seconds" taken,
or with "error"; the exit status is then 1. No request at all tests that the model loads.
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

from keras_transformer.cli.main import run_main
from tests.support.c_api import NativeError, Output, Runtime


class TensorInfo(NamedTuple):
    """Where a signature's input or output is in the graph."""

    name: str
    """Operation and output, such as ``serving_default_text:0``."""
    dtype: int
    """TF_DataType."""


class Signature(NamedTuple):
    """What can be asked of a model."""

    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]


class NativeModel:
    """A SavedModel in a session of the C++ runtime.

    Args:
        runtime: Where it runs.
        directory: The version folder, which holds ``saved_model.pb``.

    Raises:
        NativeError: It does not load; the message is TensorFlow's.
    """

    def __init__(self, runtime: Runtime, directory: Path) -> None:
        self._runtime = runtime
        self._graph = runtime.call("TF_NewGraph")
        options = runtime.call("TF_NewSessionOptions")
        meta_graph = runtime.call("TF_NewBuffer")
        tags = (c_char_p * 1)(b"serve")
        place = os.fsencode(directory)
        try:
            self._session = runtime.checked(
                *("TF_LoadSessionFromSavedModel", options, None, place, tags, len(tags)),
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
            NativeError: No such signature, other inputs than it has, or it failed.
        """
        if signature not in self.signatures:
            keys = ", ".join(sorted(self.signatures))
            raise NativeError(f"signature: expected one of {keys}; got {signature}")
        asked = self.signatures[signature]
        if set(inputs) != set(asked.inputs):
            wanted, came = (", ".join(sorted(names)) or "none" for names in (asked.inputs, inputs))
            raise NativeError(f"inputs of {signature}: expected {wanted}; got {came}")
        with contextlib.ExitStack() as stack:
            feeds = [
                stack.enter_context(self._runtime.tensor(inputs[name], tensor.dtype))
                for name, tensor in asked.inputs.items()
            ]
            results = (c_void_p * len(asked.outputs))()
            self._runtime.checked(
                *("TF_SessionRun", self._session, None),
                *(self._places(asked.inputs), (c_void_p * len(feeds))(*feeds), len(feeds)),
                *(self._places(asked.outputs), results, len(results)),
                *(None, 0, None),
            )
            # Taken before the inputs are freed: an output may share an input's memory.
            taken = [self._runtime.take(result) for result in results]
        return dict(zip(asked.outputs, taken, strict=True))

    def close(self) -> None:
        """Free the session; the model cannot be used any more."""
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
    """The signatures of a serialized MetaGraphDef, but for the one that starts the model.

    TensorFlow's own classes for it would import TensorFlow; few of their fields are needed.
    """
    signatures = {}
    for key, definition in _entries(meta_graph, field=5):
        signatures[key] = Signature(_tensors(definition, field=1), _tensors(definition, field=2))
    signatures.pop("__saved_model_init_op", None)
    return signatures


def _tensors(definition: bytes, field: int) -> dict[str, TensorInfo]:
    """The inputs (field 1) or outputs (field 2) of a SignatureDef, in a fixed order."""
    tensors = {}
    for name, info in sorted(_entries(definition, field)):
        values = dict(_fields(info))
        tensors[name] = TensorInfo(values[1].decode(), values.get(2, 0))
    return tensors


def _entries(message: bytes, field: int) -> Iterator[tuple[str, bytes]]:
    """Keys and values of a map in a protocol buffer."""
    for number, entry in _fields(message):
        if number == field:
            values = dict(_fields(entry))
            yield values[1].decode(), values.get(2, b"")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a protocol buffer: a whole number, or bytes."""
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
    """The folder in which TensorFlow is installed; it is not imported.

    Raises:
        NativeError: It is not installed.
    """
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        raise NativeError("tensorflow is not installed; name a folder with --libraries")
    return Path(found.origin).parents[1]


def answer(model: NativeModel, line: str) -> dict[str, Any]:
    """The answer to a request.

    Args:
        model: What is asked.
        line: The request as JSON.

    Returns:
        ``outputs`` (nested lists by name), ``shapes`` and ``seconds``, or ``error``.
    """
    try:
        request = json.loads(line)
        inputs = {name: _sent(values) for name, values in request["inputs"].items()}
        start = time.perf_counter()
        outputs = model.run(request.get("signature", "serving_default"), inputs)
        seconds = time.perf_counter() - start
    except NativeError as error:
        return {"error": str(error)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"error": f'expected {{"signature": ..., "inputs": {{...}}}}: {error}'}
    return {
        "outputs": {name: _received(values.tolist()) for name, values in outputs.items()},
        "shapes": {name: list(values.shape) for name, values in outputs.items()},
        "seconds": round(seconds, 6),
    }


def _sent(values: Any) -> Any:
    """JSON's values with text as bytes."""
    if isinstance(values, list):
        return [_sent(value) for value in values]
    if isinstance(values, dict):
        return base64.b64decode(values["b64"], validate=True)
    # JSON can hold half of a surrogate pair, which UTF-8 cannot.
    return values.encode(errors="surrogatepass") if isinstance(values, str) else values


def _received(values: Any) -> Any:
    """Values with bytes as text, for JSON."""
    if isinstance(values, list):
        return [_received(value) for value in values]
    if not isinstance(values, bytes):
        return values
    try:
        return values.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(values).decode()}


@run_main("serving.native")
def main(argv: Sequence[str]) -> None:
    """Answer the requests of standard input."""
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
        "of another release; else the installed ones.",
    )
    options = parser.parse_args(argv)
    # Read by TensorFlow: a processor is what the answers must hold on.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    model = NativeModel(Runtime(options.libraries or installed()), options.directory)
    failed = False
    for line in sys.stdin:
        reply = answer(model, line)
        failed = failed or "error" in reply
        print(json.dumps(reply, ensure_ascii=False), flush=True)
    model.close()
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
