"""Request bodies with a content encoding."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from keras_transformer.server.body import gunzip
from keras_transformer.server.errors import RestError

PATH = "/v1/models/shout:predict"


def test_gzip(shout):
    body = json.dumps({"instances": ["a" * 1000]}).encode()
    packed = gzip.compress(body)

    def send(content, encoding):
        headers = {"Content-Encoding": encoding}
        return shout.post(PATH, content=content, headers=headers)

    for encoding in ("gzip", "x-gzip", "identity, gzip"):
        assert send(packed, encoding).json()["predictions"][0]["translation"] == "A" * 1000
    for encoding in ("deflate", "br", "GZIP"):  # as in TF Serving, these mean nothing
        assert send(body, encoding).status_code == 200
        assert send(packed, encoding).status_code == 400
    broken = packed[:-1] + b"\0"
    for content, part in (
        (body, "expected a gzip body"),
        (b"", "ends too early"),
        (packed[:-1], "ends too early"),
        (packed + b"x", "nothing behind"),
        (packed + packed, "nothing behind"),
        (broken[:-8] + b"\0" * 8, "expected a gzip body"),
        (zlib.compress(body), "expected a gzip body"),
        (gzip.compress(b""), "empty"),
    ):
        reply = send(content, "gzip")
        assert (reply.status_code, list(reply.json())) == (400, ["error"])
        assert part in reply.json()["error"]


def test_gzip_bomb_is_413(shout):
    bomb = gzip.compress(b" " * (17 * 2**20))
    assert len(bomb) < 20_000
    reply = shout.post(PATH, content=bomb, headers={"Content-Encoding": "gzip"})
    assert reply.status_code == 413
    assert "after expansion" in reply.json()["error"]


def test_limit_after_expansion():
    packed = gzip.compress(bytes(1000))
    assert gunzip(packed, 1000) == bytes(1000)
    with pytest.raises(RestError) as error:
        gunzip(packed, 999)
    assert error.value.status == 413
