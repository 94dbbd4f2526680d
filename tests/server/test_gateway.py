"""The gateway between clients and a scripted TensorFlow Serving."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import subprocess
import sys

import pytest
import uvicorn

from keras_transformer.server.app import listen, uvicorn_config
from keras_transformer.server.gateway import Gateway, end_to_end, refuse_loop
from keras_transformer.server.settings import Address, ServeError, Settings
from keras_transformer.server.upstream import UpstreamRequest
from tests.server.recording_upstream import TOY, RecordingUpstream, Reply, call, metadata

PREDICT = "/v1/models/toy:predict"
GOOD = b'{"instances": ["a"]}'


@pytest.fixture
def scene(run):
    """Run a test with an upstream and a gateway: ``scene(test, timeout_s=1)``."""

    def perform(test, **settings):
        async def main():
            upstream = await RecordingUpstream().start()
            settings.setdefault("upstream", upstream.url)
            gateway = Gateway(Settings(**settings))
            try:
                async with gateway.running():
                    await test(upstream, gateway)
            finally:
                upstream.close()

        run(main)

    return perform


# What harms TensorFlow Serving, and what the local server refuses: body and part of the message.
REFUSED = {
    "empty column": (b'{"inputs": []}', "text: expected at least one value, got an empty list"),
    "empty named column": (b'{"inputs": {"text": []}}', "at least one value"),
    "empty rows": (b'{"instances": []}', "expected at least one"),
    "wrong rank": (b'{"instances": [["a"]]}', "expected lists 1 deep, got 2 deep"),
    "empty list in a row": (b'{"instances": [[]]}', "expected lists 1 deep, got 2 deep"),
    "no batch": (b'{"inputs": "a"}', "at least one dimension"),
    "wrong rank by column": (b'{"inputs": {"text": [["a"], ["b"]]}}', "expected lists 1 deep"),
    "nested brackets": (b"[" * 20_000, "at most 64 nested lists and objects"),
    "nested objects": (b'{"a":' * 20_000, "at most 64 nested"),
    "nested beside the rows": (
        b'{"instances": ["a"], "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        "at most 64 nested",
    ),
    "nested after a quote in a string": (
        rb'{"instances": ["\\\" [ \\"], "more": ' + b"[" * 70 + b"]" * 70 + b"}",
        "at most 64 nested",
    ),
    "number for a text": (b'{"instances": [7]}', "expected a string"),
    "unknown signature": (b'{"signature_name": "x", "instances": ["a"]}', "one of options, serv"),
    "different lengths": (
        b'{"signature_name": "options", "inputs": {"text": ["a"], "alpha": [1, 2]}}',
        "differ in their number of rows",
    ),
    "no JSON": (b"{", "not valid JSON"),
    "no body": (b"", "the body is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_harms_the_upstream_does_not_reach_it(scene, case):
    body, message = REFUSED[case]

    async def test(upstream, gateway):
        for path in (
            PREDICT,
            "/V1/Models/toy/versions/3:PREDICT",
            "/v1/models/toy/labels/a:predict",
        ):
            upstream.metadata[path.rpartition(":")[0]] = TOY
            plain = await call(gateway, "POST", path, body)
            packed = [("Content-Encoding", "gzip")]
            zipped = await call(gateway, "POST", path, gzip.compress(body), packed)
            for answer in (plain, zipped):
                assert answer.status == 400
                assert message in answer.error
        assert upstream.received == []

    scene(test)


def test_too_much_is_refused(scene):
    async def test(upstream, gateway):
        long = json.dumps({"instances": ["a" * 1025]}).encode()
        assert (await call(gateway, "POST", PREDICT, long)).status == 413
        large = json.dumps({"instances": ["a" * 1000] * 3}).encode()
        length = [("Content-Length", str(len(large)))]
        for body, headers in (
            (large, length),
            ([large[:1000], large[1000:2200], large[2200:]], ()),
            (gzip.compress(large), [("Content-Encoding", "gzip")]),
        ):
            answer = await call(gateway, "POST", PREDICT, body, headers)
            assert answer.status == 413
            assert "at most 2097 bytes" in answer.error
        assert upstream.received == []

    scene(test, max_text_kb=1, max_body_mb=0.002)


def test_other_encodings_and_damaged_ones(scene):
    async def test(upstream, gateway):
        for encoding, body, status in (
            ("br", GOOD, 415),
            ("gzip, gzip", GOOD, 415),
            ("x gzip", GOOD, 415),  # TensorFlow Serving looks for gzip anywhere in the header
            ("gzip", GOOD, 400),
            ("gzip", gzip.compress(GOOD)[:-4], 400),
            ("gzip", gzip.compress(GOOD) * 2, 400),
        ):
            answer = await call(gateway, "POST", PREDICT, body, [("Content-Encoding", encoding)])
            assert answer.status == status, encoding
        assert upstream.received == []

    scene(test)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "http://elsewhere/v1/models/toy:predict"),
        ("POST", "//elsewhere/v1/models/toy:predict"),
        ("POST", "/v1/models/toy:predict#x"),
        ("POST", "/v1/models/toy"),
        ("POST", "/other"),
        ("OPTIONS", "*"),
        ("GET", "http://elsewhere/v1/models/toy"),
    ],
)
def test_targets_that_another_parser_reads_differently(scene, method, target):
    async def test(upstream, gateway):
        answer = await call(gateway, method, target, b'{"inputs": []}')
        assert answer.status == 400
        assert (upstream.received, upstream.metadata_reads) == ([], 0)

    scene(test)


def test_a_good_request_and_its_reply_pass_unchanged(scene):
    body = b' {"instances" : ["\xc3\xa4", "[[{{\\"", {"b64": "aA=="}], "signature_name": ""}\n'
    reply = Reply(
        201,
        b'{\n    "predictions": ["A", 1e-3]\n}',
        [("X-One", "1"), ("X-One", "2"), ("Date", "then"), ("Keep-Alive", "x"), ("Server", "s")],
    )
    sent = [
        ("Content-Type", "text/odd"),
        ("Accept-Encoding", "gzip"),
        ("X-Id", "7"),
        ("Connection", "x-hop, close"),
        ("X-Hop", "1"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Host", "gateway"),
    ]

    async def test(upstream, gateway):
        upstream.answer = lambda received: reply
        answer = await call(gateway, "POST", PREDICT + "?a=b", [body[:9], body[9:]], sent)
        (received,) = upstream.received
        assert (received.method, received.target) == ("POST", PREDICT + "?a=b")
        assert received.body == body
        assert dict(received.headers) == {
            b"host": f"127.0.0.1:{upstream.port}".encode(),
            b"content-type": b"text/odd",
            b"accept-encoding": b"gzip",
            b"x-id": b"7",
            b"content-length": str(len(body)).encode(),
        }
        assert (answer.status, answer.body, answer.complete) == (201, reply.body, True)
        assert answer.headers == [
            (b"content-length", str(len(reply.body)).encode()),
            (b"x-one", b"1"),
            (b"x-one", b"2"),
            (b"date", b"then"),
            (b"server", b"s"),
        ]

    scene(test)


def test_gzip_is_checked_and_passed_on_as_plain_text(scene):
    async def test(upstream, gateway):
        headers = [("Content-Encoding", "gzip")]
        answer = await call(gateway, "POST", PREDICT, gzip.compress(GOOD), headers)
        assert answer.status == 200
        assert upstream.received[0].body == GOOD
        assert b"content-encoding" not in dict(upstream.received[0].headers)

    scene(test)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_other_methods_pass_without_a_body(scene, method):
    async def test(upstream, gateway):
        headers = [("Origin", "http://page"), ("Access-Control-Request-Method", "POST")]
        cors = [("Access-Control-Allow-Origin", "*")]
        body = b"" if method == "HEAD" else b"{}"
        upstream.answer = lambda received: Reply(200, body, cors)
        answer = await call(gateway, method, "/v1/models/toy", b"[" * 20_000, headers)
        (received,) = upstream.received
        assert (received.method, received.body) == (method, b"")
        assert dict(received.headers)[b"origin"] == b"http://page"
        assert (b"access-control-allow-origin", b"*") in answer.headers

    scene(test)


def test_errors_of_the_upstream_pass_unchanged(scene):
    async def test(upstream, gateway):
        upstream.answer = lambda received: Reply(503, b'{"error": "queue"}', [("Retry-After", "9")])
        answer = await call(gateway, "POST", PREDICT, GOOD)
        assert (answer.status, answer.error) == (503, "queue")
        assert (b"retry-after", b"9") in answer.headers
        unknown = await call(gateway, "POST", "/v1/models/other:predict", GOOD)
        assert unknown.status == 404
        assert unknown.error == "Could not find any versions of model /v1/models/other"

    scene(test)


def test_a_new_version_brings_new_signatures(scene):
    async def test(upstream, gateway):
        new = b'{"signature_name": "nbest", "instances": [{"source": "a"}]}'
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 200
        assert (await call(gateway, "POST", PREDICT, new)).status == 400
        upstream.metadata["/v1/models/toy"] = metadata("2", nbest={"source": ("DT_STRING", -1)})
        await asyncio.sleep(0.11)
        # A request that does not fit the known signatures leads to a new look at once.
        assert (await call(gateway, "POST", PREDICT, new)).status == 200
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 400
        assert [received.body for received in upstream.received] == [GOOD, new]

    scene(test, poll_s=60)


def test_the_metadata_of_a_model_in_use_is_read_again_and_again(scene):
    async def test(upstream, gateway):
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 200
        upstream.metadata["/v1/models/toy"] = metadata("2", serving_default={"x": ("DT_FLOAT", -1)})
        reads = upstream.metadata_reads
        async with asyncio.timeout(5):
            while upstream.metadata_reads < reads + 2:
                await asyncio.sleep(0.01)
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 400
        assert len(upstream.received) == 1

    scene(test, poll_s=0.02)


def test_accepted_requests_need_one_read(scene):
    async def test(upstream, gateway):
        for _ in range(20):
            await call(gateway, "POST", PREDICT, GOOD)
        assert upstream.metadata_reads == 1
        assert len(upstream.received) == 20

    scene(test, poll_s=60)


def test_refused_requests_do_not_flood_the_upstream_with_reads(scene):
    async def test(upstream, gateway):
        for _ in range(50):
            await call(gateway, "POST", PREDICT, b'{"instances": [["a"]]}')
        assert upstream.metadata_reads <= 3

    scene(test, poll_s=60)


def test_a_refusal_does_not_depend_on_the_upstream(scene):
    async def test(upstream, gateway):
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 200
        upstream.metadata = {}  # any read fails
        await asyncio.sleep(0.11)
        assert (await call(gateway, "POST", PREDICT, b'{"instances": [["a"]]}')).status == 400

    scene(test, poll_s=60)


@pytest.mark.parametrize(
    ("host", "upstream", "loops"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "0.0.0.0", True),  # a connection to it reaches this machine
        ("127.0.0.1", "127.0.0.2", False),  # another server may listen there
        ("0.0.0.0", "192.0.2.1", False),  # an address for documents
        ("127.0.0.1", "tf.invalid", False),
    ],
)
def test_a_gateway_to_itself_is_refused(host, upstream, loops):
    with listen(host, 0) as bound:
        port = bound.getsockname()[1]
        refuse_loop(Address(upstream, port + 1), bound)
        expected = pytest.raises(ServeError, match="is the gateway itself; .* another --port")
        with expected if loops else contextlib.nullcontext():
            refuse_loop(Address(upstream, port), bound)


def test_no_connection_is_503(scene):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    async def test(_, gateway):
        for method, target in (("POST", PREDICT), ("GET", "/v1/models/toy")):
            answer = await call(gateway, method, target, GOOD)
            assert (answer.status, answer.error) == (503, "cannot connect to the model server")
            assert (b"retry-after", b"1") in answer.headers
            assert (b"x-content-type-options", b"nosniff") in answer.headers

    scene(test, upstream=f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("raw", "status", "message"),
    [
        (b"", 502, "the model server closed the connection before its answer"),
        (b"HTTP/1.1 200 OK\r\nContent-", 502, "not valid HTTP"),
        (b"SSH-2.0-x\r\n\r\n", 502, "not valid HTTP"),
    ],
)
def test_a_broken_connection_is_502(scene, raw, status, message):
    async def test(upstream, gateway):
        upstream.answer = lambda received: Reply(raw=raw)
        answer = await call(gateway, "POST", PREDICT, GOOD)
        assert answer.status == status
        assert message in answer.error

    scene(test)


def test_a_slow_upstream_is_504(scene):
    async def test(upstream, gateway):
        upstream.answer = lambda received: Reply(wait=5)
        answer = await call(gateway, "POST", PREDICT, GOOD)
        assert (answer.status, answer.error) == (504, "no answer from the model server in time")

    scene(test, timeout_s=0.1)


def test_a_reply_that_breaks_off_is_not_completed(scene):
    async def test(upstream, gateway):
        raw = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
        upstream.answer = lambda received: Reply(raw=raw)
        answer = await call(gateway, "POST", PREDICT, GOOD)
        assert (answer.status, answer.body, answer.complete) == (200, b"abc", False)

    scene(test)


def test_a_fault_of_the_gateway_itself_is_an_answer(scene, monkeypatch):
    async def test(upstream, gateway):
        monkeypatch.setattr(gateway.upstream, "request", lambda *_: 1 / 0)
        for method, target in (("GET", "/v1/models/toy"), ("POST", PREDICT)):
            answer = await call(gateway, method, target, GOOD)
            assert (answer.status, answer.error) == (500, "the gateway failed: ZeroDivisionError")

    scene(test)


def test_a_reply_of_unknown_length(scene):
    async def test(upstream, gateway):
        for raw in (
            b"HTTP/1.0 200 OK\r\n\r\nabcdef",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
        ):
            upstream.answer = lambda received, raw=raw: Reply(raw=raw)
            answer = await call(gateway, "POST", PREDICT, GOOD)
            assert (answer.status, answer.body, answer.complete) == (200, b"abcdef", True)
            assert b"transfer-encoding" not in dict(answer.headers)

    scene(test)


def test_connections_are_reused_and_their_number_is_bounded(scene):
    async def test(upstream, gateway):
        for _ in range(10):
            await call(gateway, "POST", PREDICT, GOOD)
        assert upstream.connections == 1
        upstream.answer = lambda received: Reply(wait=0.02)
        answers = await asyncio.gather(*[call(gateway, "POST", PREDICT, GOOD) for _ in range(9)])
        assert {answer.status for answer in answers} == {200}
        assert upstream.connections == 3

    scene(test, upstream_connections=3)


def test_a_request_that_gets_no_connection_is_503(scene):
    async def test(upstream, gateway):
        later = asyncio.get_running_loop().time() + 10
        async with gateway.upstream.request(UpstreamRequest("GET", b"/"), later):
            answer = await call(gateway, "GET", "/v1/models/toy")
        assert answer.status == 503
        assert answer.error == "all 1 connections to the model server are busy"
        assert (await call(gateway, "GET", "/v1/models/toy")).status == 200

    scene(test, upstream_connections=1, timeout_s=0.1)


def test_a_connection_that_the_upstream_closed_meanwhile(scene):
    async def test(upstream, gateway):
        await call(gateway, "POST", PREDICT, GOOD)
        answers = [Reply(raw=b""), Reply()]  # closed after the request was sent
        upstream.answer = lambda received: answers.pop(0)
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 200
        assert upstream.connections == 2

    scene(test)


def test_a_client_that_disconnects_frees_its_connection(scene):
    async def test(upstream, gateway):
        await call(gateway, "POST", PREDICT, GOOD)
        upstream.answer = lambda received: Reply(wait=10)
        gone = asyncio.Event()
        waiting = asyncio.create_task(call(gateway, "POST", PREDICT, GOOD, gone=gone))
        await asyncio.sleep(0.03)
        gone.set()
        assert await waiting is None
        upstream.answer = lambda received: Reply()
        assert (await call(gateway, "POST", PREDICT, GOOD)).status == 200

    scene(test, upstream_connections=1)


def test_headers_that_a_proxy_passes_on():
    headers = [(b"connection", b"Foo , bar"), (b"foo", b"1"), (b"bar", b"2"), (b"x", b"3")]
    assert end_to_end(headers) == [(b"x", b"3")]
    assert end_to_end([(b"upgrade", b"h2c"), (b"x", b"3")], frozenset([b"x"])) == []


@contextlib.asynccontextmanager
async def listening(gateway):
    """Serve a gateway over HTTP; yields a function that sends a request in a thread."""
    server = uvicorn.Server(uvicorn_config(gateway))
    bound = listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    bound.listen()
    task = asyncio.create_task(server.serve(sockets=[bound]))

    def send(method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(method, path, body, dict(headers))
        reply = connection.getresponse()
        reply.address = ("127.0.0.1", port)
        content = reply.read()
        connection.close()
        return reply, content

    yield lambda *arguments: asyncio.to_thread(send, *arguments)
    server.should_exit = True
    await task


def test_over_http(scene):
    """Framing by the HTTP server: HEAD, bodies of unknown length both ways, one Date."""

    async def test(upstream, gateway):
        async with listening(gateway) as send:
            upstream.answer = lambda received: Reply(headers=[("Date", "then")])
            parts = (part for part in [GOOD[:5], GOOD[5:]])
            reply, content = await send("POST", PREDICT, parts)
            assert (reply.status, content) == (200, b'{"predictions": []}')
            assert reply.headers.get_all("Date") == ["then"]
            assert upstream.received[0].body == GOOD

            upstream.answer = lambda received: Reply(
                raw=b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"
            )
            reply, content = await send("HEAD", "/v1/models/toy")
            assert (reply.headers["Content-Length"], content) == ("40", b"")

            upstream.answer = lambda received: Reply(
                raw=b"HTTP/1.0 200 OK\r\n\r\n" + b"abc" * 99_999
            )
            reply, content = await send("GET", "/v1/models/toy")
            assert reply.headers["Transfer-Encoding"] == "chunked"
            assert content == b"abc" * 99_999

            raw = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
            upstream.answer = lambda received: Reply(raw=raw)
            with pytest.raises(http.client.IncompleteRead):
                await send("GET", "/v1/models/toy")

            reply, content = await send("POST", PREDICT, b"[" * 20_000)
            assert reply.status == 400
            assert reply.headers["Server"].startswith("keras_transformer-serve")
            assert reply.headers["Date"].endswith("GMT")

    scene(test)


def test_the_number_of_clients_is_bounded(scene):
    async def test(upstream, gateway):
        async with listening(gateway) as send:
            reply, _ = await send("GET", "/v1/models/toy")
            address = reply.address
            opened = [await asyncio.open_connection(*address) for _ in range(2)]  # silent clients
            reply, _ = await send("GET", "/v1/models/toy")
            assert reply.status == 503
            opened.pop()[1].close()
            await asyncio.sleep(0.02)
            reply, _ = await send("GET", "/v1/models/toy")
            assert reply.status == 200
            opened.pop()[1].close()
        assert len(upstream.received) == 2

    scene(test, max_connections=3)


def test_tensorflow_is_not_imported(run):
    """A whole process: it answers, never imports TensorFlow, and ends at once."""
    code = (
        "import sys; from keras_transformer.serve import main; status = main(sys.argv[1:]);"
        "print(status, 'tensorflow' in sys.modules, 'keras' in sys.modules)"
    )

    async def main():
        upstream = await RecordingUpstream().start()
        words = ["--upstream", upstream.url, "--port", "0", "--log_requests"]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            line = await asyncio.to_thread(process.stderr.readline)
            url = line.partition("serving http://")[2].partition(" ")[0]
            assert f"as a gateway to {upstream.url}" in line

            def ask():
                connection = http.client.HTTPConnection(url, timeout=10)
                connection.request("POST", PREDICT + "?key=secret", GOOD)
                return connection.getresponse().status

            assert await asyncio.to_thread(ask) == 200
            process.terminate()
            output, log = await asyncio.to_thread(process.communicate, None, 20)
        finally:
            process.kill()
            upstream.close()
        assert output == "0 False False\n"
        assert f"POST {PREDICT} 200" in log
        assert "secret" not in log

    run(main)
