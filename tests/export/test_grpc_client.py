"""The gRPC client against a server of the same messages."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import grpc_client
import pytest
from client import Failure, Retries
from grpc_client import BOOL, FLOAT, STRING, GrpcClient, predict_pb2, prediction_service_pb2_grpc

Predict = Callable[[Any, grpc.ServicerContext], Any]


def fill(tensor: Any, dtype: int, shape: list[int], values: list[Any]) -> None:
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    contents = {STRING: tensor.string_val, FLOAT: tensor.float_val, BOOL: tensor.bool_val}
    contents[dtype].extend(values)


def reversing(request: Any, context: grpc.ServicerContext) -> Any:
    texts = [text.decode() for text in request.inputs["text"].string_val]
    response = predict_pb2.PredictResponse()
    count = len(texts)
    if request.model_spec.signature_name == "nbest":
        doubled = [found for text in texts for found in (text[::-1].encode(), b"")]
        fill(response.outputs["translations"], STRING, [count, 2], doubled)
        fill(response.outputs["scores"], FLOAT, [count, 2], [-0.5, -1e9] * count)
    else:
        fill(response.outputs["translation"], STRING, [count], [t[::-1].encode() for t in texts])
        fill(response.outputs["score"], FLOAT, [count], [-0.25 * len(text) for text in texts])
        fill(response.outputs["truncated"], BOOL, [count], [False] * count)
    return response


class Server(prediction_service_pb2_grpc.PredictionServiceServicer):  # type: ignore[misc]
    """A server with the function ``predict``; it records its requests."""

    def __init__(self) -> None:
        self.predict: Predict = reversing
        self.requests: list[Any] = []
        self._lock = threading.Lock()
        self.address = ""

    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self._lock:
            self.requests.append(request)
        return self.predict(request, context)

    def fail(self, times: int, code: grpc.StatusCode, message: str = "no") -> None:
        """Fail ``times`` times, then succeed."""
        left = [times]

        def predict(request: Any, context: grpc.ServicerContext) -> Any:
            if left[0] == 0:
                return reversing(request, context)
            left[0] -= 1
            context.abort(code, message)

        self.predict = predict


@pytest.fixture
def server() -> Iterator[Server]:
    service = Server()
    made = grpc.server(ThreadPoolExecutor(8))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, made)
    service.address = f"127.0.0.1:{made.add_insecure_port('127.0.0.1:0')}"
    made.start()
    yield service
    made.stop(0).wait()


@pytest.fixture
def client(server: Server) -> Iterator[Callable[..., GrpcClient]]:
    """Make a client that retries almost at once."""
    with grpc_client.connect(server.address, None) as channel:
        yield lambda **options: GrpcClient(
            channel, "m", retries=Retries(attempts=3, first_wait=0.001), **options
        )


def run(server: Server, *arguments: str) -> int:
    return grpc_client.main(["--server", server.address, "--model", "en-de", *arguments])


def test_lines_come_back_in_order(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"ligne {number} \U0001f600é" for number in range(30)] + ["", "我爱你"]
    path = tmp_path / "in.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def predict(request: Any, context: grpc.ServicerContext) -> Any:
        if request.inputs["text"].string_val[0] == lines[0].encode():
            time.sleep(0.1)  # later batches finish first
        return reversing(request, context)

    server.predict = predict

    assert run(server, "--file", str(path), "--batch", "4", "--in-flight", "3") == 0
    assert capsys.readouterr().out.splitlines() == [line[::-1] for line in lines]
    assert {len(request.inputs["text"].string_val) for request in server.requests} == {4}


def test_requests(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, "ab", "cd", "--version", "3", "--scores") == 0
    assert run(server, "ab", "--label", "stable", "--model", "other", "--n-best", "2") == 0

    first, second = server.requests
    assert first.model_spec.name == "en-de"
    assert first.model_spec.version.value == 3
    assert first.model_spec.signature_name == "translate"
    assert [dim.size for dim in first.inputs["text"].tensor_shape.dim] == [2]
    assert first.inputs["text"].dtype == STRING
    assert second.model_spec.name == "other"
    assert second.model_spec.version_label == "stable"
    assert capsys.readouterr().out == "-0.5000\tba\n-0.5000\tdc\n1\tba\n"


@pytest.mark.parametrize("code", sorted(grpc_client.TRANSIENT, key=str))
def test_transient_errors_are_retried(
    server: Server, client: Callable[..., GrpcClient], code: grpc.StatusCode
) -> None:
    server.fail(2, code)

    assert client().predict("translate", ["ab"]) == [
        {"translation": "ba", "score": -0.5, "truncated": False}
    ]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
        (grpc.StatusCode.NOT_FOUND, 2),
        (grpc.StatusCode.INTERNAL, 1),
    ],
)
def test_a_refusal_is_final(
    server: Server, code: grpc.StatusCode, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fail(1, code, "no such signature")

    assert run(server, "ab") == status
    assert len(server.requests) == 1
    assert f"{code.name} no such signature" in capsys.readouterr().err


def test_each_attempt_has_a_deadline(server: Server, client: Callable[..., GrpcClient]) -> None:
    done = threading.Event()

    def predict(request: Any, context: grpc.ServicerContext) -> Any:
        done.wait(5)
        return reversing(request, context)

    server.predict = predict
    start = time.monotonic()
    with pytest.raises(Failure, match=r"DEADLINE_EXCEEDED.*\(3 tries\)"):
        client(deadline=0.1).predict("translate", ["ab"])
    taken = time.monotonic() - start
    done.set()

    assert 0.3 <= taken < 3
    assert len(server.requests) == 3


def test_no_server(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{closed_port}"

    assert grpc_client.main(["--server", address, "--model", "m", "ab", "--attempts", "2"]) == 1
    assert "UNAVAILABLE" in capsys.readouterr().err


def test_a_server_on_this_machine_is_called_directly(
    server: Server,
    closed_port: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port}")
    monkeypatch.delenv("no_proxy", raising=False)

    assert run(server, "ab", "--attempts", "1") == 0
    assert capsys.readouterr().out == "ba\n"


def test_a_proxy_that_fails_is_named_without_its_password(
    closed_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{closed_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    words = ["--server", "192.0.2.1:8500", "--model", "m", "ab", "--attempts", "1"]

    assert grpc_client.main([*words, "--timeout", "3"]) == 1
    error = capsys.readouterr().err
    assert f"(through the proxy http://127.0.0.1:{closed_port}; see no_proxy)" in error
    assert "secret" not in error


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("127.0.0.1:8500", ""),
        ("[::1]:8500", ""),
        ("dns:///localhost:8500", ""),
        ("unix:/run/tf", ""),
        ("tf.inner.org:8500", ""),
        ("ipv4:10.0.0.1:8500", "http://proxy:3128"),
        ("host:8500", "http://proxy:3128"),
    ],
)
def test_proxies_of_servers(server: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "other.org, inner.org")

    assert grpc_client.proxy_of(server) == proxy


def test_certificates_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert grpc_client.main(["--tls", "absent.pem", "--model", "m", "ab"]) == 2
    assert capsys.readouterr().err == "error: absent.pem: No such file or directory\n"


def test_values_of_a_tensor_may_be_packed() -> None:
    tensor = predict_pb2.PredictResponse().outputs["score"]
    fill(tensor, FLOAT, [2, 1], [])
    tensor.tensor_content = b"\x00\x00\x80\x3f\x00\x00\x00\xc0"  # 1 and -2, little-endian

    assert grpc_client.values(tensor, 2) == [[1.0], [-2.0]]


@pytest.mark.parametrize(
    ("shape", "values"), [([3], [0.0] * 3), ([2], [0.0]), ([], [0.0]), ([2, 1, 1], [0.0, 0.0])]
)
def test_an_output_of_another_shape(shape: list[int], values: list[float]) -> None:
    tensor = predict_pb2.PredictResponse().outputs["score"]
    fill(tensor, FLOAT, shape, values)

    with pytest.raises(Failure, match="expected 2 rows"):
        grpc_client.values(tensor, 2)


def test_tensorflow_is_not_imported(kit: Path) -> None:
    code = "import sys, grpc_client; print([n for n in sys.modules if n.startswith('tensorflow.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=kit, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_tensorflow_can_be_imported_afterwards(kit: Path) -> None:
    code = """
import grpc_client
import tensorflow as tf
request = grpc_client.predict_pb2.PredictRequest()
request.inputs["text"].CopyFrom(tf.make_tensor_proto(["x", "y"]))
print(list(request.inputs["text"].string_val))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=kit, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[b'x', b'y']\n"
