"""The local server against TensorFlow Serving's own answers, see serving_verdicts/README.md."""

from __future__ import annotations

import base64
import json
import lzma
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.server.decode import PredictRequest, decode
from keras_transformer.server.encode import encode
from keras_transformer.server.errors import STATUS, RestError
from keras_transformer.server.signature import Signature, Spec

FOLDER = Path(__file__).parent / "serving_verdicts"
DOCUMENT = Path(__file__).parents[2] / "docs" / "serving-api.md"


def cases(name):
    with lzma.open(FOLDER / f"{name}.jsonl.xz", "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def as_bytes(value):
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def as_array(tensor):
    if tensor["dtype"] == "string":
        array = np.empty(len(tensor["values"]), dtype=object)
        array[:] = [as_bytes(value) for value in tensor["values"]]
    else:
        values = [float(v) if isinstance(v, str) else v for v in tensor["values"]]
        array = np.array(values, dtype=tensor["dtype"])
    return array.reshape(tensor["shape"])


def content(case, name):
    packed = case.get(f"{name}_b64")
    return case[name].encode() if packed is None else base64.b64decode(packed)


@pytest.fixture(scope="module")
def find():
    text = (FOLDER / "signatures.json").read_text(encoding="ascii")
    out = {"out": Spec("string", (None,))}
    signatures = {}
    for name, inputs in json.loads(text).items():
        specs = {
            key: Spec(spec["dtype"], None if spec["shape"] is None else tuple(spec["shape"]))
            for key, spec in inputs.items()
        }
        signatures[name] = Signature(name, inputs=specs, outputs=out)

    def of_name(name):
        if (name or "serving_default") not in signatures:
            raise RestError(f"there is no signature {name!r}")
        return signatures[name or "serving_default"]

    return of_name


def answer(body, find):
    try:
        return decode(body, find)
    except RestError as error:
        return error


def equal(found, wanted):
    """Compare type, shape and bits of two arrays; all NaN count as the same."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if found.dtype.kind != "f":
        return found.tolist() == wanted.tolist()
    both = np.isnan(found) & np.isnan(wanted)
    return bool(np.all(both | ((found == wanted) & (np.signbit(found) == np.signbit(wanted)))))


def agrees(case, found):
    refused = isinstance(found, RestError)
    if case["verdict"] == "accepted" and case["fits"]:
        return (
            not refused
            and (found.layout, found.signature.name) == (case["layout"], case["signature"])
            and found.inputs.keys() == case["tensors"].keys()
            and all(equal(found.inputs[k], as_array(t)) for k, t in case["tensors"].items())
        )
    # Refused by the parser, or by the server afterwards; a crash has no status.
    return refused and found.status == STATUS[case.get("code", "INVALID_ARGUMENT")]


def listed_differences():
    """Return the table of the document: message of the local server -> number of cases."""
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| 400, `([^`]+)` \|.*\| (\d+) \|$", text, re.MULTILINE)
    return {message: int(count) for message, count in rows}


def test_requests_get_the_verdicts_and_values_of_tf_serving(find):
    requests = cases("requests")
    assert len(requests) == 3762
    listed = listed_differences()
    found = Counter()
    unlisted = []
    for case in requests:
        given = answer(content(case, "body"), find)
        if agrees(case, given):
            continue
        message = next((text for text in listed if text in str(given)), None)
        if isinstance(given, PredictRequest) or message is None:
            unlisted.append((case["id"], case["kind"], str(given)[:200]))
        else:
            found[message] += 1
    assert unlisted == []
    assert found == listed
    assert found.total() <= len(requests) / 100


def test_numbers_have_the_digits_of_tf_serving():
    numbers = cases("numbers")
    for dtype, count in (("float32", 1564), ("float64", 320)):
        chosen = [case for case in numbers if case["dtype"] == dtype]
        assert len(chosen) == count
        bits = b"".join(bytes.fromhex(case["bits"]) for case in chosen)
        values = np.frombuffer(bits, np.dtype(dtype).newbyteorder(">")).astype(dtype)
        lines = encode({"x": values}, "column").decode().splitlines()[2:-2]
        texts = [line.strip().rstrip(",") for line in lines]
        assert texts == [case["text"] for case in chosen]


def sorted_lines(text):
    """Return the lines without their commas, which depend on the order of the outputs."""
    return sorted(line.rstrip(b",") for line in text.split(b"\n"))


def test_replies_are_laid_out_as_by_tf_serving():
    replies = cases("replies")
    assert len(replies) == 62
    for case in replies:
        outputs = {name: as_array(tensor) for name, tensor in case["outputs"].items()}
        if case["verdict"] == "refused":
            with pytest.raises(RestError) as error:
                encode(outputs, case["layout"])
            assert error.value.status == 400
            continue
        found, wanted = encode(outputs, case["layout"]), content(case, "reply")
        if case.get("varies"):
            assert sorted_lines(found) == sorted_lines(wanted), case["id"]
            texts = [text.decode("latin-1").replace("NaN", '"NaN"') for text in (found, wanted)]
            assert json.loads(texts[0]) == json.loads(texts[1]), case["id"]
        else:
            assert found == wanted, case["id"]
