"""Signatures from metadata, and checks of bodies by hand."""

from __future__ import annotations

import gzip
import json

import pytest

from keras_transformer.server.errors import RestError
from keras_transformer.server.request_check import MAX_DEPTH, check_depth, decompress
from keras_transformer.server.signature import Spec
from keras_transformer.server.upstream_signatures import parse_metadata
from tests.server.recording_upstream import metadata


def test_types_and_shapes():
    reply = metadata("12", f={"a": ("DT_STRING", -1), "b": ("DT_FLOAT",), "c": ("DT_HALF", -1, 3)})
    version, signatures = parse_metadata(200, json.dumps(reply).encode())
    assert version == "12"
    assert signatures["f"].inputs == {
        "a": Spec("string", (None,)),
        "b": Spec("float32", ()),
        "c": Spec("DT_HALF", (None, 3)),
    }
    definition = reply["metadata"]["signature_def"]["signature_def"]["f"]
    definition["inputs"]["a"]["tensor_shape"] = {"dim": [], "unknown_rank": True}
    _, signatures = parse_metadata(200, json.dumps(reply).encode())
    assert signatures["f"].inputs["a"] == Spec("string", None)


def test_metadata_of_the_local_server(shout):
    version, signatures = parse_metadata(200, shout.get("/v1/models/shout/metadata").content)
    assert version == "1"
    assert signatures["options"].inputs == {
        "text": Spec("string", (None,)),
        "alpha": Spec("float32", (None,)),
        "max_extra": Spec("int32", (None,)),
    }


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": 1}', b"[" * 99_999, b'{"error": "x"}']
)
def test_metadata_of_another_form(body):
    with pytest.raises(RestError, match="another form") as caught:
        parse_metadata(200, body)
    assert caught.value.status == 502


def test_an_error_instead_of_metadata_is_passed_on():
    with pytest.raises(RestError, match="^not there$") as caught:
        parse_metadata(404, b'{"error": "not there"}')
    assert (caught.value.status, caught.value.code) == (404, "NOT_FOUND")
    with pytest.raises(RestError, match="status 404") as caught:
        parse_metadata(404, b"not there")
    assert caught.value.status == 502


@pytest.mark.parametrize(
    ("body", "deep"),
    [
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, False),
        (b"[" * (MAX_DEPTH + 1), True),
        (b'{"a":[' * 33, True),
        (b"[],{}," * 1000, False),
        (b'["' + b"[" * 1000 + b'"]', False),  # in a string
        (rb'["\"' + b"[" * 1000 + b'"]', False),  # in a string after a quote
        (rb'["\\"' + b"[" * 1000 + b"]", True),  # after a string that ends in a backslash
        (rb'["\\\"' + b"[" * 1000 + b'"]', False),
        (b'["\\u0022"' + b"[" * 1000, True),
    ],
)
def test_depth(body, deep):
    if deep:
        with pytest.raises(RestError, match="at most 64 nested"):
            check_depth(body)
    else:
        check_depth(body)


def test_decompression_stops_at_the_limit():
    packed = gzip.compress(bytes(10_000))
    assert decompress(packed, "GZIP", 10_000) == bytes(10_000)
    with pytest.raises(RestError, match="at most 9999 bytes after expansion") as caught:
        decompress(packed, "gzip", 9_999)
    assert caught.value.status == 413
    assert decompress(b"x", "identity", 1) == b"x"
