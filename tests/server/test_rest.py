"""The REST interface over a real SavedModel."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keras_transformer.server.errors import RestError
from keras_transformer.server.rest import Target, parse_path

MODEL = "/v1/models/shout"


def predict(client, body, path=f"{MODEL}:predict"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, content=content)


def test_rows_of_bare_values_come_back_as_objects_in_order(shout):
    reply = predict(shout, {"instances": ["b", "", "a"]})
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {
        "predictions": [
            {"translation": "B", "score": -0.1, "truncated": False},
            {"translation": "", "score": 0.0, "truncated": False},
            {"translation": "A", "score": -0.1, "truncated": False},
        ]
    }


def test_columns(shout):
    reply = predict(shout, {"signature_name": "translate", "inputs": {"text": ["a", "bc"]}})
    assert reply.json() == {
        "outputs": {"translation": ["A", "BC"], "score": [-0.1, -0.2], "truncated": [False, False]}
    }
    assert predict(shout, {"inputs": ["a", "bc"]}).json()["outputs"]["translation"] == ["A", "BC"]


def test_a_batch_of_none_by_column(shout):
    reply = predict(shout, {"inputs": {"text": []}})
    assert reply.json() == {"outputs": {"translation": [], "score": [], "truncated": []}}


def test_several_inputs_by_row(shout):
    rows = [{"text": "ab", "alpha": 2, "max_extra": 5}, {"text": "", "alpha": 1.5, "max_extra": 0}]
    reply = predict(shout, {"signature_name": "options", "instances": rows})
    assert [row["score"] for row in reply.json()["predictions"]] == [4.6, 0.0]


def test_outputs_with_inner_dimensions(shout):
    reply = predict(shout, {"signature_name": "nbest", "instances": [{"text": "a"}]})
    assert reply.json() == {"predictions": [{"translations": ["A", "a"], "scores": [-0.1, -0.1]}]}
    reply = predict(shout, {"signature_name": "align", "instances": ["ab", "c"]})
    rows = reply.json()["predictions"]
    assert [row["source_pieces"] for row in rows] == [["a", "b"], ["c", ""]]
    assert [row["attention"] for row in rows] == [[[1.0], [1.0]], [[1.0], [0.0]]]


def test_text_that_is_not_ascii_and_invalid_utf8(shout):
    assert "Ä" in predict(shout, {"instances": ["Ä🙂"]}).text
    reply = predict(shout, {"instances": [{"b64": "w4Q="}, {"b64": "/w"}]})
    assert '"translation": "Ä"' in reply.text
    assert b'"translation": "\xff"' in reply.content
    assert b'"translation": "A\xff"' in predict(shout, b'{"instances": ["a\xff"]}').content
    assert predict(shout, b'{"instances": ["a\\u0000b"]}').json()["predictions"][0] == {
        "translation": "A\0B",
        "score": -0.3,
        "truncated": False,
    }


def test_layout_is_that_of_tf_serving(shout):
    text = predict(shout, {"signature_name": "nbest", "instances": ["a"]}).text
    assert text == (
        '{\n    "predictions": [\n        {\n'
        '            "scores": [-0.1, -0.1],\n'
        '            "translations": ["A", "a"]\n'
        "        }\n    ]\n}"
    )


@pytest.mark.parametrize(
    "path", ["/versions/1", "/labels/stable", "/LABELS/stable", "/versions/0001"]
)
def test_version_and_label(shout, path):
    assert predict(shout, {"instances": ["a"]}, f"{MODEL}{path}:predict").status_code == 200
    assert shout.get(f"{MODEL}{path}").json()["model_version_status"][0]["version"] == "1"


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/v1/models/other:predict", 404, "'other'"),
        ("/v1/models/shout/versions/2:predict", 404, "version 2"),
        ("/v1/models/shout/labels/next:predict", 404, "version 2"),
        ("/v1/models/shout/labels/none:predict", 400, "no label 'none'"),
        ("/v1/models/shout/versions/99999999999999999999:predict", 400, "2^63"),
        ("/v1/models/shout/versions/x:predict", 400, "versions/N"),
        ("/v1/models/shout:predict?a=b", 400, "no query"),
        ("/v1/models/shout/versions/1:predict?a=b", 400, "no query"),
        ("/v1/models/shout:classify", 400, "classify"),
        ("/v1/models/shout:regress", 400, "regress"),
        ("/v1/models/shout:translate", 400, ":predict"),
        ("/v1/models/shout", 400, "POST"),
        ("/v1/models", 400, "POST"),
        ("/v1", 400, "POST"),
        ("/v2/models/shout:predict", 404, "Not Found"),
    ],
)
def test_wrong_addresses(shout, path, status, part):
    reply = predict(shout, {"instances": ["a"]}, path)
    assert reply.status_code == status
    assert part in reply.json()["error"]


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "empty"),
        (b"nonsense", "not valid JSON"),
        (b'{"instances": ["a\nb"]}', "expected a value at byte 15"),
        (b'{"instances": ["\\ud800"]}', "surrogate"),
        (b'\xff\xfe{"instances": ["a"]}', "not valid JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"instances": ' + b"[" * 200 + b"]" * 200 + b"}", "1 deep, got 200 deep"),
        (b'{"instances": [' + b"9" * 5000 + b"]}", "not valid JSON"),
        (b'{"instances": [1e999]}', "too large"),
        (b"[1]", "expected a JSON object, got a list"),
        ({}, "got neither"),
        ({"instances": ["a"], "inputs": ["a"]}, "got both"),
        ({"instances": []}, "at least one"),
        ({"instances": "a"}, "expected a list, got the string 'a'"),
        ({"instances": [1]}, "instances[0]: expected a string"),
        ({"instances": [True]}, "got true"),
        ({"instances": [None]}, "got null"),
        ({"instances": [["a"]]}, "1 deep, got 2 deep"),
        ({"instances": ["a", ["b"]]}, "instances[1]: expected a string"),
        ({"instances": [{"text": "a"}, "b"]}, "instances[1]: expected an object"),
        ({"instances": [{"txt": "a"}]}, "expected the keys text, got txt"),
        ({"instances": [{"text": "a", "more": 1}]}, "got more, text"),
        ({"instances": [{}]}, "got none"),
        (b'{"instances": [{"text": "a", "text": "b"}]}', "twice"),
        ({"instances": [{"b64": "%%%"}]}, "instances[0]: expected base64, got the string '%%%'"),
        ({"instances": [{"b64": "YQ="}]}, "base64"),
        ({"instances": ["a", {"text": "b"}]}, "instances[1]: expected a value"),
        ({"instances": [{"b64": "YQ\u2003=="}]}, "base64"),
        (b'{"instances": [' + b"9" * 400 + b"]}", "the number is too large at byte 15"),
        ({"instances": [10**300]}, "got the number 1e+300"),
        (b'{"signature_name": "\xff", "instances": ["a"]}', "align, nbest, options"),
        ({"inputs": {"txt": ["a"]}}, "inputs: text is missing"),
        ({"inputs": "a"}, "text: input tensors must have at least one dimension; expected a list"),
        ({"inputs": {"text": "a"}}, 'such as {"inputs": ["..."]}, got a single value'),
        ({"inputs": [["a"], ["b"]]}, "1 deep, got 2 deep"),
        ({"signature_name": 3, "instances": ["a"]}, "expected a string, got the number 3"),
        ({"signature_name": "no", "instances": ["a"]}, "align, nbest, options"),
        ({"signature_name": "options", "instances": ["a"]}, "alpha, max_extra, text"),
        ({"signature_name": "options", "inputs": ["a"]}, "alpha, max_extra, text"),
        (
            {"signature_name": "options", "inputs": {"text": ["a"], "alpha": [], "max_extra": [1]}},
            "number of rows",
        ),
        ({"instances": ["a", "explode"]}, "it explodes"),
    ],
)
def test_wrong_requests_are_400(shout, body, part):
    reply = predict(shout, body)
    assert (reply.status_code, list(reply.json())) == (400, ["error"])
    assert part in reply.json()["error"]


@pytest.mark.parametrize(
    ("alpha", "extra", "part"),
    [
        ("1", 1, "alpha[0]: expected a number (float32), got the string '1'"),
        (True, 1, "got true"),
        (10**400, 1, "the number is too large"),
        (1, 1.0, "max_extra[0]: expected a whole number (int32), got the number 1.0"),
        (1, 2**31, "from -2147483648 to 2147483647"),
        (1, None, "got null"),
    ],
)
def test_types_of_numbers(shout, alpha, extra, part):
    rows = [{"text": "a", "alpha": alpha, "max_extra": extra}]
    reply = predict(shout, {"signature_name": "options", "instances": rows})
    assert reply.status_code == 400
    assert part in reply.json()["error"]


def test_nan_and_infinity_are_numbers(shout):
    body = (
        b'{"signature_name": "options", "instances": [{"text": "a", "alpha": NaN, "max_extra": 0}'
    )
    body += b', {"text": "a", "alpha": -Infinity, "max_extra": 0}]}'
    reply = predict(shout, body)
    assert '"score": NaN' in reply.text
    assert '"score": Infinity' in reply.text


@pytest.mark.parametrize(
    ("alpha", "score"), [(16777217, -1677721.6), (2**64 - 1, -1.84467446e18), (1e39, -np.inf)]
)
def test_numbers_are_rounded_to_float32(shout, alpha, score):
    rows = [{"text": "a", "alpha": alpha, "max_extra": 0}]
    reply = predict(shout, {"signature_name": "options", "instances": rows})
    assert reply.json()["predictions"][0]["score"] == pytest.approx(score)


def test_what_is_behind_the_document_is_not_read(shout):
    reply = predict(shout, b'{"instances": ["a"]} {nonsense\xff')
    assert reply.json()["predictions"][0]["translation"] == "A"


def test_first_of_two_equal_keys_counts(shout):
    reply = predict(shout, b'{"instances": ["a"], "instances": [3]}')
    assert reply.json()["predictions"][0]["translation"] == "A"


def test_status(shout):
    expected = {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert shout.get(MODEL).json() == {"model_version_status": [expected]}
    assert shout.get(f"{MODEL}/versions/7").status_code == 404
    assert shout.get("/v1/models/other").status_code == 404
    assert shout.get(f"{MODEL}?a=b").status_code == 404
    assert shout.get(f"{MODEL}/versions/1?a=b").status_code == 400
    assert shout.get(f"{MODEL}/metadata?a=b").status_code == 400
    for label in ("stable", "UNKNOWN", "stable?a=b"):  # TF Serving ignores it
        assert shout.get(f"{MODEL}/labels/{label}").json() == {"model_version_status": [expected]}
    assert shout.get(f"{MODEL}/labels/UNKNOWN/metadata").status_code == 400
    assert shout.delete(MODEL).status_code == 400


def test_metadata(shout):
    reply = shout.get(f"{MODEL}/metadata").json()
    assert reply["model_spec"] == {"name": "shout", "signature_name": "", "version": "1"}
    signatures = reply["metadata"]["signature_def"]["signature_def"]
    text = signatures["options"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}],
        "unknown_rank": False,
    }
    assert signatures["nbest"]["method_name"] == "tensorflow/serving/predict"
    assert shout.get(f"{MODEL}/versions/1/metadata").json() == reply


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("GET", "/v1/models/a", Target("a", None, None, "status")),
        ("GET", "/v1/models/a%20b/metadata", Target("a b", None, None, "metadata")),
        ("POST", "/V1/Models/a:PREDICT", Target("a", None, None, "predict")),
        ("POST", "/v1/models/a/labels/x%2Fy:predict", Target("a", None, "x/y", "predict")),
        ("GET", "/v1/models/a/versions/12/metadata", Target("a", 12, None, "metadata")),
    ],
)
def test_parse_path(method, path, target):
    assert parse_path(method, path) == target


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/models/a:predict/"),
        ("GET", "/v1/models/a:predict"),
        ("GET", "/v1/models/a/versions/1/labels/b"),
        ("GET", "/v1/models/a/versions/\u0663"),
        ("PUT", "/v1/models/a"),
    ],
)
def test_parse_path_refuses(method, path):
    with pytest.raises(RestError, match="expected GET /v1/models/NAME"):
        parse_path(method, path)
