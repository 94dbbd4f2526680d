"""Translate lines with a model behind TensorFlow Serving, over gRPC.

  python export/grpc_client.py --model en-de "A dog runs." "A man sleeps."
  python export/grpc_client.py --model en-de --file text.en > text.de
  cat text.en | python export/grpc_client.py --server host:8500 --model en-de --n-best 3

One line of output for each line of input, in the same order. Each request has a deadline, and
is sent again when the server is unavailable, out of resources or too late, never after other
errors. Exit status: 0 done, 1 the server failed or did not answer, 2 it refused the request or
an option is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
from lines import Failure, Prediction, Retries, add_options, exit_status, translate

AGAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
WRONG = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}
# A server of default settings hangs up on whoever pings more often than every five minutes.
OPTIONS = [("grpc.keepalive_time_ms", 300_000), ("grpc.keepalive_timeout_ms", 10_000)]


def import_messages() -> tuple[Any, Any]:
    """Import ``predict_pb2`` and ``prediction_service_pb2_grpc`` without starting TensorFlow.

    The messages need ``tensorflow/core/framework/tensor_pb2.py`` only, but importing that
    runs all of TensorFlow's start. While it is imported, an empty package stands in for
    ``tensorflow``; afterwards it goes, so that the true one can still be imported.
    """
    names = ("predict_pb2", "prediction_service_pb2_grpc")
    spec = None if "tensorflow" in sys.modules else importlib.util.find_spec("tensorflow")
    if spec is not None:
        stand_in = types.ModuleType("tensorflow")
        stand_in.__path__ = list(spec.submodule_search_locations or ())
        sys.modules["tensorflow"] = stand_in
    try:
        modules = [importlib.import_module(f"tensorflow_serving.apis.{name}") for name in names]
    finally:
        if spec is not None:
            for name in [n for n in sys.modules if n.split(".")[0] == "tensorflow"]:
                del sys.modules[name]
    return modules[0], modules[1]


predict_pb2, prediction_service_pb2_grpc = import_messages()

# Numbers of tensorflow/core/framework/types.proto.
FLOAT, STRING, BOOL = 1, 7, 10


class GrpcClient:
    """Calls ``Predict`` of one model; may be used from several threads.

    Args:
        channel: To the server.
        model: Its name in ``models.config``.
        version: A version of it, None for the newest one loaded.
        label: A label instead of a version.
        deadline: Seconds for one try.
        retries: How often to try.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        model: str,
        version: int | None = None,
        label: str | None = None,
        deadline: float = 35.0,
        retries: Retries | None = None,
    ) -> None:
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model = predict_pb2.PredictRequest().model_spec
        self._model.name = model
        if version is not None:
            self._model.version.value = version
        elif label is not None:
            self._model.version_label = label
        self._deadline = deadline
        self._retries = retries or Retries()

    def predict(self, signature: str, texts: Sequence[str]) -> list[Prediction]:
        """Ask for the outputs of a signature that takes ``text`` alone.

        Args:
            signature: Such as ``translate``.
            texts: Sentences, one row each.

        Returns:
            For each sentence, in order, the outputs by name.

        Raises:
            Failure: The server refuses, keeps failing, or answers what it should not.
        """
        request = predict_pb2.PredictRequest()
        request.model_spec.CopyFrom(self._model)
        request.model_spec.signature_name = signature
        text = request.inputs["text"]
        text.dtype = STRING
        text.tensor_shape.dim.add(size=len(texts))
        text.string_val.extend(sentence.encode() for sentence in texts)
        columns = {
            name: values(tensor, len(texts)) for name, tensor in self._call(request).outputs.items()
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _call(self, request: Any) -> Any:
        attempt = 1
        while True:
            try:
                return self._stub.Predict(request, timeout=self._deadline)
            except grpc.RpcError as error:
                code = error.code()
                problem = f"model {self._model.name}: {code.name} {error.details()}"
            if code not in AGAIN:
                raise Failure(problem, 2 if code in WRONG else 1)
            if not self._retries.again(attempt):
                raise Failure(f"{problem} ({attempt} tries)")
            attempt += 1


def values(tensor: Any, rows: int) -> list[Any]:
    """The contents of an output, by row.

    Args:
        tensor: A ``TensorProto`` of strings, float32 or bool, ``[rows]`` or ``[rows, n]``.
        rows: Number of sentences asked for.

    Returns:
        ``rows`` values, or as many lists of ``n`` values.

    Raises:
        Failure: The tensor has another shape or type.
    """
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    flat: list[Any]
    if tensor.dtype == STRING:
        flat = [text.decode("utf-8", "replace") for text in tensor.string_val]
    elif tensor.dtype in (FLOAT, BOOL):
        packed = memoryview(tensor.tensor_content).cast("f" if tensor.dtype == FLOAT else "?")
        flat = packed.tolist() or list(
            tensor.float_val if tensor.dtype == FLOAT else tensor.bool_val
        )
    else:
        raise Failure(f"expected strings, float32 or bool, got type {tensor.dtype}")
    width = shape[1] if len(shape) == 2 else 1
    if not 1 <= len(shape) <= 2 or shape[0] != rows or len(flat) != rows * width:
        raise Failure(f"expected {rows} rows, got shape {shape} with {len(flat)} values")
    if len(shape) == 1:
        return flat
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def connect(server: str, certificates: Path | None) -> grpc.Channel:
    """A channel to ``server`` (host:port), with TLS where a file of certificates is given.

    Raises:
        Failure: The file cannot be read.
    """
    if certificates is None:
        return grpc.insecure_channel(server, OPTIONS)
    try:
        trusted = certificates.read_bytes()
    except OSError as error:
        raise Failure(f"{certificates}: {error.strerror}", 2) from None
    return grpc.secure_channel(server, grpc.ssl_channel_credentials(trusted), OPTIONS)


def main(argv: Sequence[str] | None = None) -> int:
    """Translate what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="127.0.0.1:8500", help="host and port (%(default)s)")
    parser.add_argument(
        "--tls", metavar="FILE", type=Path, help="use TLS and trust the certificates of a PEM file"
    )
    add_options(parser)
    options = parser.parse_args(argv)

    def program() -> None:
        retries = Retries(options.attempts)
        with connect(options.server, options.tls) as channel:
            client = GrpcClient(
                channel, options.model, options.version, options.label, options.timeout, retries
            )
            translate(options, client.predict, retries)

    return exit_status(program)


if __name__ == "__main__":
    sys.exit(main())
