"""Slow, broken and disconnected clients over real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
import uvicorn

from keras_transformer.server.app import Service, listen
from keras_transformer.server.protocol import bounded_protocol
from keras_transformer.server.settings import Settings

BODY = b'{"instances": ["a"]}'
HEAD = b"POST /v1/models/toy:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture
def service(folder, scripted):
    return Service(folder, Settings(name="toy", timeout_s=0.5, batches=1), None, scripted.load)


@pytest.fixture
def connect(service, scripted):
    """Make connections to a server with a limit of half a second."""
    taken = listen("127.0.0.1", 0)
    address = taken.getsockname()
    config = uvicorn.Config(
        service.app(), http=bounded_protocol(0.5), ws="none", lifespan="on", log_config=None
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
    thread.start()
    wait_for(lambda: server.started)
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection(address, timeout=10))
    scripted.free.set()
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def everything(connection):
    """Return all bytes until the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            received += part
    return received


def test_silent_connection_is_closed(connect):
    started = time.monotonic()
    assert everything(connect()) == b""
    assert time.monotonic() - started >= 0.4


def test_slow_head_is_closed(connect):
    connection = connect()
    started = time.monotonic()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for byte in HEAD * 5:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
    assert time.monotonic() - started < len(HEAD) * 0.05


def test_slow_body_gets_408(connect):
    connection = connect()
    connection.sendall(HEAD % 1000)
    received = []
    reader = threading.Thread(target=lambda: received.append(everything(connection)))
    reader.start()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(100):
            connection.sendall(b" ")
            if not reader.is_alive():
                break
            time.sleep(0.05)
    reader.join(10)
    assert received[0].startswith(b"HTTP/1.1 408 ")


def test_rows_of_a_disconnected_client_are_dropped(connect, service, scripted):
    scripted.free.clear()
    first, second = connect(), connect()
    first.sendall(HEAD % len(BODY) + BODY)
    wait_for(lambda: scripted.batches)
    second.sendall(HEAD % len(BODY) + BODY)
    wait_for(lambda: service.batcher.waiting == 1)
    second.close()
    wait_for(lambda: service.batcher.waiting == 0)
    scripted.free.set()
    assert first.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert scripted.batches == [["a"]]
    assert b'status="CANCELLED"} 1.0' in service.metrics.render()


def test_requests_one_after_another_in_one_connection(connect):
    connection = connect()
    for _ in range(3):
        connection.sendall(HEAD % len(BODY) + BODY)
        reply = b""
        while b'"A"' not in reply:
            reply += connection.recv(65536)
        time.sleep(0.3)  # in total longer than the limit, which restarts with each reply
    connection.sendall((HEAD % len(BODY) + BODY) * 3)  # and three sent at once
    assert everything(connection).count(b"HTTP/1.1 200 ") == 3


def test_garbage_is_refused(connect):
    for garbage in (b"\0" * 100, b"nonsense\r\n\r\n", b"\x16\x03\x01"):
        connection = connect()
        connection.sendall(garbage + b"\r\n\r\n")
        assert everything(connection).startswith(b"HTTP/1.1 400 ")
    huge = connect()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        huge.sendall(b"GET /" + b"a" * 200_000)
    assert everything(huge)[:13] in (b"", b"HTTP/1.1 400 ")
