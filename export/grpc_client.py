"""Translate lines with a model behind TensorFlow Serving, over gRPC.

  python export/grpc_client.py --model en-de "A dog runs." "A man sleeps."
  python export/grpc_client.py --model en-de --file text.en > text.de
  cat text.en | python export/grpc_client.py --server host:8500 --model en-de --n-best 3

Each line of input has one line of output, in the same order. Each request has a deadline. It is
repeated after UNAVAILABLE, RESOURCE_EXHAUSTED and DEADLINE_EXCEEDED, never after other errors. A
server on this machine is called directly, others through the proxy that grpc_proxy, https_proxy,
http_proxy and no_proxy name.
Exit status: 0 done, 1 the server failed or did not reply, 2 it refused the request or an option is
wrong.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
from client import (
    Failure,
    Retries,
    TransientFailure,
    add_options,
    exit_status,
    is_local,
    without_password,
)
from lines import Prediction, translate

TRANSIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
REFUSED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}
# A server with default settings disconnects clients that ping more than once in five minutes.
OPTIONS = [("grpc.keepalive_time_ms", 300_000), ("grpc.keepalive_timeout_ms", 10_000)]


def import_messages() -> tuple[Any, Any]:
    """Import ``predict_pb2`` and ``prediction_service_pb2_grpc`` without starting TensorFlow.

    The messages need only ``tensorflow/core/framework/tensor_pb2.py``, but its import would start
    TensorFlow. So an empty package replaces ``tensorflow`` during the import. It is removed
    afterwards, so that TensorFlow itself can still be imported.
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
    """Client of one model's ``Predict`` method, for use in several threads.

    Args:
        channel: Channel to the server.
        model: Name of the model in ``models.config``.
        version: A version number; default: the newest loaded version.
        label: A label instead of a version number.
        deadline: Seconds for one attempt.
        retries: How failed requests are repeated.
        proxy: The proxy that the channel uses, for messages.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        model: str,
        version: int | None = None,
        label: str | None = None,
        deadline: float = 35.0,
        retries: Retries | None = None,
        proxy: str = "",
    ) -> None:
        self._route = f" (through the proxy {proxy}; see no_proxy)" if proxy else ""
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
        """Call a signature whose only input is ``text``.

        Args:
            signature: Its name, such as ``translate``.
            texts: Sentences, one row each.

        Returns:
            The outputs by name for each sentence, in order.

        Raises:
            Failure: The server refuses the request, keeps failing, or sends an invalid reply.
        """
        request = predict_pb2.PredictRequest()
        request.model_spec.CopyFrom(self._model)
        request.model_spec.signature_name = signature
        text = request.inputs["text"]
        text.dtype = STRING
        text.tensor_shape.dim.add(size=len(texts))
        text.string_val.extend(sentence.encode() for sentence in texts)
        outputs = self._retries.call(lambda: self._send(request)).outputs
        columns = {name: values(tensor, len(texts)) for name, tensor in outputs.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _send(self, request: Any) -> Any:
        """Send a request once."""
        try:
            return self._stub.Predict(request, timeout=self._deadline)
        except grpc.RpcError as error:
            code = error.code()
            problem = f"model {self._model.name}: {code.name} {error.details()}"
        if code in TRANSIENT:
            raise TransientFailure(problem + self._route)
        raise Failure(problem, 2 if code in REFUSED else 1)


def values(tensor: Any, rows: int) -> list[Any]:
    """Return the contents of an output by row.

    Args:
        tensor: A ``TensorProto`` of strings, float32 or bool, ``[rows]`` or ``[rows, n]``.
        rows: Number of sentences in the request.

    Returns:
        ``rows`` values, or ``rows`` lists of ``n`` values.

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
    """Open a channel to ``server`` (host:port), with TLS if a file of certificates is given.

    Raises:
        Failure: The file cannot be read.
    """
    options = [*OPTIONS, ("grpc.enable_http_proxy", int(not is_local(_host(server))))]
    if certificates is None:
        return grpc.insecure_channel(server, options)
    try:
        trusted = certificates.read_bytes()
    except OSError as error:
        raise Failure(f"{certificates}: {error.strerror}", 2) from None
    return grpc.secure_channel(server, grpc.ssl_channel_credentials(trusted), options)


def proxy_of(server: str) -> str:
    """Return the proxy that gRPC uses for a server, without its password; "" for none."""
    proxy = _first_set("grpc_proxy", "https_proxy", "http_proxy")
    direct = _first_set("no_grpc_proxy", "no_proxy")
    host = _host(server)
    skipped = any(name and host.endswith(name.strip()) for name in direct.split(","))
    return "" if skipped or is_local(host) else without_password(proxy)


def _first_set(*variables: str) -> str:
    return next((os.environ[name] for name in variables if os.environ.get(name)), "")


def _host(server: str) -> str:
    """Return the host of a gRPC target such as host:8500 or dns:///host:8500."""
    if server.startswith("unix:"):
        return "localhost"
    return urlsplit(f"//{re.sub('^(?:dns|ipv4|ipv6):(?://[^/]*/)?', '', server)}").hostname or ""


def main(argv: Sequence[str] | None = None) -> int:
    """Translate sentences, a file or standard input."""
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
                channel,
                options.model,
                options.version,
                options.label,
                options.timeout,
                retries,
                proxy_of(options.server),
            )
            translate(options, client.predict, retries)

    return exit_status(program)


if __name__ == "__main__":
    sys.exit(main())
