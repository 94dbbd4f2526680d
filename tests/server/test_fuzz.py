"""Random requests: the server never fails and never hangs."""

from __future__ import annotations

import asyncio
import functools
import gzip
import itertools
import json
import zlib

import pytest
from hypothesis import example
from hypothesis import strategies as st

from tests.support.fuzzing import fuzz, sizes

SIZES = sizes(25, slow=1500)
PREDICT = b"/v1/models/shout:predict"

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.fixed_dictionaries({"b64": TEXTS})
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
SIGNATURES = ["serving_default", "translate", "nbest", "options", "align"]


def almost(value):
    """Return a strategy for a value of the right kind or any other."""
    return value | JSON


ROW = almost(TEXTS) | st.fixed_dictionaries(
    {"text": almost(TEXTS)},
    optional={"alpha": almost(st.floats(width=32)), "max_extra": almost(st.integers(0, 9))},
)
COLUMNS = st.fixed_dictionaries(
    {"text": almost(st.lists(TEXTS, max_size=4))},
    optional={
        "alpha": almost(st.lists(st.floats(width=32), max_size=4)),
        "max_extra": almost(st.lists(st.integers(0, 9), max_size=4)),
    },
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "signature_name": almost(st.sampled_from(SIGNATURES)),
        "instances": almost(st.lists(ROW, max_size=4)),
        "inputs": almost(COLUMNS | st.lists(TEXTS, max_size=4)),
        "other": JSON,
    },
)
VALID = json.dumps(
    {
        "signature_name": "options",
        "instances": [{"text": "a\u00e4\U0001f642", "alpha": 0.5, "max_extra": 3}] * 2,
    }
).encode()


# Parts of JSON texts, whole and broken.
TOKENS = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"', '"a"', '"text":', '"b64"', "\\u00e4", "\\ud800", "\\udc00",
     "\\", "NaN", "-Inf", "Infinity", "1e309", "0.5", "-0", "9" * 400, "1e", "true", "null", " ",
     "\n", "\0", "\ufeff", '{"b64": "YQ=="}', '{"b64": "Y"}', "[" * 300, '{"a":' * 300]
)  # fmt: skip
LIKE_JSON = st.lists(TOKENS.map(str.encode) | st.binary(max_size=3), max_size=12).map(b"".join)
STARTS = st.sampled_from(
    [b"", b"\xef\xbb\xbf{", b'{"instances": ', b'{"instances": ["a", ', b'{"inputs": {"text": [',
     b'{"signature_name": "options", "instances": [{"text": "a", "alpha": ']
)  # fmt: skip
NAMES = st.sampled_from(
    ["content-length", "content-encoding", "content-type", "transfer-encoding", "expect", "host",
     "connection", "range", "accept-encoding", "origin", "upgrade", "x"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["gzip", "deflate", "x-gzip, br", "chunked", "0", "-1", "9" * 5000, "99999999999", "1e3",
     "\u0663", "100-continue", "application/json; charset=utf-16", "bytes=0-1", "*", ""]
)  # fmt: skip
HEADERS = st.lists(
    st.tuples(NAMES.map(str.encode), VALUES.map(str.encode) | st.binary(max_size=8)), max_size=4
)


async def call(app, method, path, body, query=b"", headers=(), cuts=()):
    """Send a request directly to the ASGI application, past the checks of a client."""
    scope = {
        "type": "http",
        "method": method,
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": list(headers),
    }
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    parts = [
        {"type": "http.request", "body": body[start:end], "more_body": True}
        for start, end in itertools.pairwise(places)
    ][::-1]
    parts[0]["more_body"] = False
    sent = []

    async def receive():
        if not parts:
            await asyncio.sleep(3600)
        return parts.pop()

    async def send(message):
        sent.append(message)

    async with asyncio.timeout(30):
        await app(scope, receive, send)
    return sent[0]["status"], b"".join(message["body"] for message in sent[1:])


def ask(client, body, method="POST", path=PREDICT, **more):
    send = functools.partial(call, **more)
    status, reply = client.portal.call(send, client.app, method, path, body)
    assert status < 500 or status in (503, 504), (status, reply)
    return status, reply


def parsed(reply):
    """Parse a reply; bytes that are not UTF-8 come back as the model gives them."""
    return json.loads(reply.decode("utf-8", "replace"))


@SIZES
def test_almost_valid_requests(shout, count):
    @fuzz(count, request=REQUESTS)
    def check(request):
        status, reply = ask(shout, json.dumps(request).encode())
        answer = parsed(reply)
        if status == 200:
            key = "predictions" if "instances" in request else "outputs"
            assert list(answer) == [key]
            if key == "predictions":
                assert len(answer[key]) == len(request["instances"])
        else:
            assert (status, list(answer)) == (400, ["error"])


@SIZES
def test_valid_requests(shout, count):
    @fuzz(count, texts=st.lists(TEXTS, min_size=1, max_size=5), name=st.sampled_from(SIGNATURES))
    def check(texts, name):
        rows = [{"text": text} for text in texts]
        if name == "options":
            rows = [row | {"alpha": 1, "max_extra": 0} for row in rows]
        body = json.dumps({"signature_name": name, "instances": rows}).encode()
        status, reply = ask(shout, body)
        assert status == (400 if "explode" in texts else 200)
        if status == 200 and name == "translate":
            scores = [row["score"] for row in parsed(reply)["predictions"]]
            assert scores == pytest.approx([-len(text) / 10 for text in texts])


@SIZES
def test_random_bytes(shout, count):
    @fuzz(count, body=st.binary(max_size=200))
    def check(body):
        status, reply = ask(shout, body)
        # Valid requests are among the constants of the code, which are tried too.
        assert (status, list(parsed(reply))) in [(400, ["error"]), (200, ["predictions"])]


@SIZES
def test_damaged_requests(shout, count):
    @fuzz(
        count,
        start=st.integers(0, len(VALID)),
        length=st.integers(0, 6),
        put=st.binary(max_size=6) | st.sampled_from([b"NaN", b"-0", b"1e400", b"\\ud800", b"\xff"]),
    )
    def check(start, length, put):
        status, reply = ask(shout, VALID[:start] + put + VALID[start + length :])
        assert status in (200, 400)
        json.loads(reply.decode("utf-8", "replace"))


@SIZES
def test_texts_like_json(shout, count):
    @fuzz(count, start=STARTS, text=LIKE_JSON)
    def check(start, text):
        status, reply = ask(shout, start + text)
        assert status in (200, 400)
        assert status == 200 or list(parsed(reply)) == ["error"]


@SIZES
def test_random_headers_chunks_and_encodings(shout, count):
    valid = json.dumps({"instances": ["a"]}).encode()
    packed = gzip.compress(valid)

    @fuzz(
        count,
        headers=HEADERS,
        cuts=st.lists(st.integers(0, 80), max_size=5),
        body=st.sampled_from([valid, packed, packed[:-4], zlib.compress(valid), b""]) | LIKE_JSON,
        damage=st.none() | st.tuples(st.integers(0, 60), st.binary(max_size=2)),
    )
    def check(headers, cuts, body, damage):
        if damage:
            body = body[: damage[0]] + damage[1] + body[damage[0] + len(damage[1]) :]
        status, reply = ask(shout, body, headers=headers, cuts=cuts)
        assert status == 200 or (400 <= status < 500 and list(parsed(reply)) == ["error"])
        if status == 200 and body in (valid, packed):
            assert b'"translation": "A"' in reply


@SIZES
def test_random_paths_and_methods(shout, count):
    parts = st.sampled_from(
        ["v1", "models", "shout", "versions", "1", "labels", "stable", "metadata", "..", "%00",
         "%2e%2e", ":predict", "shout:predict", "page", "index.html", "monitoring", "99999", ""]
    )  # fmt: skip
    paths = st.lists(parts | TEXTS, max_size=7).map(lambda items: "/" + "/".join(items))
    methods = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "X"])

    # h11 refuses a target with bytes outside these.
    visible = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)
    queries = st.sampled_from(["", "a=b", "/metadata", ":predict"]) | visible

    @fuzz(
        count,
        path=paths.map(str.encode) | st.binary(max_size=40),
        method=methods,
        query=queries.map(str.encode),
    )
    @example(path=b"/page/model.json", method="GET", query=b"")
    @example(path=b"/" + b"a" * 5000, method="GET", query=b"")
    @example(path=b"/v1/models/shout/labels/x", method="GET", query=b"%zz&%ff")
    @example(path=b"/v1/models/shout/versions/" + b"9" * 5000, method="GET", query=b"")
    def check(path, method, query):
        ask(shout, b'{"instances": ["a"]}', method, path, query=query)
