"""Exports in TensorFlow's C++ runtime, as TensorFlow Serving runs them.

Quick tests use the libraries of the installed TensorFlow, slow ones those of release 2.20, which
`make test-slow` installs beside the environment.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.inference.translator import Score, Translation, Translator
from keras_transformer.model import transformer
from keras_transformer.serving import warmup
from keras_transformer.serving.saved_model import lint
from keras_transformer.serving.saved_model.module import ServedTranslator
from keras_transformer.serving.saved_model.weights import Weights
from tests.support import c_api, tf_c_session

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.support.tf_c_session"
RELEASED = Path(
    os.environ.get("KERAS_TRANSFORMER_SERVING_LIBRARIES", Path(sys.prefix) / "tensorflow-2.20")
)
SENTENCES = [
    "A dog runs over the green grass.",
    "Two men are talking, and a woman listens.",
    "The child sees a red ball.",
    "a",
]
ODDITIES = [
    "naïve café — cafe\u0301 ＦＵＬＬ ｗｉｄｔｈ",
    "emoji 🐶👩‍👩‍👧 and 中文，日本語、العربية",
    "<s> </s> <pad> <unk> <0x0A> ▁",
    "\x00\x07 control\tcharacters\x85 and\u2028separators",
    b"\xff\xfe dog \x80".decode(errors="surrogateescape"),
    "the dog " * 30,
    "x" * 100_000,
]
BLANK = ["", " ", "\t\n", "\u00a0", "\u3000", "\u200b"]
LINES = [*SENTENCES, *ODDITIES, *BLANK]
# 257 lines, most of them short to save time.
MANY = LINES + [random.Random(5).choice(["a", "", " ", *SENTENCES[:1]]) for _ in range(240)]
MANY = random.Random(6).sample(MANY, 257)
BATCHES = [[], LINES[:1], BLANK, LINES]

Reply = dict[str, Any]


def ask(directory: Path, requests: Sequence[Reply], libraries: Path | None = None) -> list[Reply]:
    """Return the replies of a new process."""
    command = [sys.executable, "-m", MODULE, str(directory)]
    if libraries is not None:
        command += ["--libraries", str(libraries)]
    done = subprocess.run(
        command,
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def sent(line: str) -> str | dict[str, str]:
    """Return a line for JSON; lone surrogates stand for bytes that are not UTF-8."""
    data = line.encode(errors="surrogateescape")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def read(line: str) -> str:
    """Return the line with U+FFFD for bytes that are not UTF-8, for Python's translator."""
    return line.encode(errors="surrogateescape").decode(errors="replace")


@pytest.fixture(scope="module")
def expected(translator: Translator) -> dict[str, Translation]:
    """Python's translation of each line."""
    lines = [read(line) for line in LINES]
    return dict(zip(LINES, translator.translate(lines), strict=True))


@pytest.fixture(scope="module")
def forced(translator: Translator) -> dict[str, Score]:
    """Python's score of each line as a translation of the one before."""
    lines = [read(line) for line in LINES]
    return dict(zip(LINES, translator.score(lines[-1:] + lines[:-1], lines), strict=True))


def batches(signature: str) -> list[list[str]]:
    """Return the batches for a signature; the large one is cut into chunks, in each the same."""
    return [*BATCHES, MANY] if signature == "translate" else BATCHES


@dataclasses.dataclass(frozen=True)
class Replies:
    """Replies of a runtime."""

    signatures: dict[str, list[Reply]]
    """Replies to ``batches`` by signature."""
    warm_up: list[Reply]
    """Replies to the warm-up file."""


@pytest.fixture(
    scope="module",
    params=["installed", pytest.param("2.20", marks=pytest.mark.slow)],
)
def replies(request: pytest.FixtureRequest, small_export: Path) -> Replies:
    """Run all signatures with batches of several sizes, and the warm-up requests."""
    libraries = None
    if request.param != "installed":
        libraries = RELEASED
        if not (libraries / "tensorflow").is_dir():
            pytest.skip(f"no TensorFlow {request.param} at {libraries}: `make test-slow` puts it")
    requests = [
        {"signature": key, "inputs": inputs(key, batch)}
        for key in SIGNATURES
        for batch in batches(key)
    ]
    warm = warm_up(small_export)
    assert {item["signature"] for item in warm} == set(SIGNATURES)
    if libraries is None:  # those of one signature, to save time
        warm = [item for item in warm if item["signature"] == "serving_default"]
    answers = iter(ask(small_export, [*requests, *warm], libraries))
    found = {key: [next(answers) for _ in batches(key)] for key in SIGNATURES}
    warmed = list(answers)
    assert len(warmed) == len(warm)
    return Replies(found, warmed)


def inputs(signature: str, batch: list[str]) -> dict[str, list[Any]]:
    texts = [sent(line) for line in batch]
    if signature == "score":
        before = [sent(LINES[LINES.index(line) - 1]) for line in batch]
        return {"source": before, "target": texts}
    if signature == "options":  # as exported, in each second row
        rows = range(len(batch))
        alphas, extras = [[0.6, 0.0][row % 2] for row in rows], [[4, 1][row % 2] for row in rows]
        return {"text": texts, "alpha": alphas, "max_extra": extras}
    return {"text": texts}


def warm_up(directory: Path) -> list[Reply]:
    """Return the requests of the warm-up file."""
    requests = []
    for record in tf.data.TFRecordDataset(str(directory / warmup.FILE)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        values = {key: tf.make_ndarray(value).tolist() for key, value in request.inputs.items()}
        texts = {
            key: [item.decode() if isinstance(item, bytes) else item for item in row]
            for key, row in values.items()
        }
        requests.append({"signature": request.model_spec.signature_name, "inputs": texts})
    return requests


def check_best(batch: list[str], outputs: Reply, expected: dict[str, Translation]) -> None:
    wanted = [expected[line] for line in batch]
    assert outputs["translation"] == [item.text for item in wanted]
    np.testing.assert_allclose(outputs["score"], [item.score for item in wanted], atol=1e-4)
    long = ("the dog " * 30, "x" * 100_000)  # more than 60 tokens
    assert outputs["truncated"] == [
        line in long or not item.finished for line, item in zip(batch, wanted, strict=True)
    ]


def check_nbest(batch: list[str], outputs: Reply, expected: dict[str, Translation]) -> None:
    for line, texts, scores in zip(batch, outputs["translations"], outputs["scores"], strict=True):
        wanted = [expected[line], *expected[line].alternatives]
        assert len(texts) == len(scores) == 3
        assert texts == [item.text for item in wanted] + [""] * (3 - len(wanted))
        np.testing.assert_allclose(
            scores[: len(wanted)], [item.score for item in wanted], atol=1e-4
        )


def check_options(batch: list[str], outputs: Reply, expected: dict[str, Translation]) -> None:
    assert {len(values) for values in outputs.values()} == {len(batch)}
    check_best(batch[::2], {key: values[::2] for key, values in outputs.items()}, expected)
    # Without a length penalty a score is a log-probability, and fewer tokens are allowed.
    for line, score in zip(batch[1::2], outputs["score"][1::2], strict=True):
        assert score == 0.0 if line in BLANK else score < 0.0


def check_align(batch: list[str], outputs: Reply, expected: dict[str, Translation]) -> None:
    check_best(batch, outputs, expected)
    for line, sources, targets, rows in zip(
        batch,
        *(outputs[key] for key in ("source_pieces", "target_pieces", "attention")),
        strict=True,
    ):
        attention = np.reshape(np.array(rows, np.float64), (len(targets), len(sources)))
        read, written = (sum(piece != "" for piece in pieces) for pieces in (sources, targets))
        np.testing.assert_allclose(attention[:written].sum(axis=1), 1.0, atol=1e-5)
        assert not attention[written:].any()
        assert not attention[:, read:].any()
        if line in BLANK:
            assert (read, written) == (0, 0)
            continue
        assert sources[read - 1] == "</s>"
        assert not expected[line].finished or targets[written - 1] == "</s>"


SIGNATURES: dict[str, Callable[[list[str], Reply, dict[str, Translation]], None]] = {
    "serving_default": check_best,
    "translate": check_best,
    "nbest": check_nbest,
    "options": check_options,
    "align": check_align,
    "score": lambda *_: None,  # has a test of its own
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_texts_and_scores_equal_those_of_python(replies, expected, signature):
    assert any(item.text for item in expected.values()), "the model says nothing"
    for batch, answer in zip(batches(signature), replies.signatures[signature], strict=True):
        assert "error" not in answer
        assert {shape[0] for shape in answer["shapes"].values()} == {len(batch)}
        SIGNATURES[signature](batch, answer["outputs"], expected)


def test_forced_scores_equal_those_of_python(replies, forced):
    for batch, answer in zip(batches("score"), replies.signatures["score"], strict=True):
        wanted = [forced[line] for line in batch]
        outputs = answer["outputs"]
        log_probabilities = np.array([item.log_probability for item in wanted])
        tokens = np.array([item.tokens for item in wanted])
        assert outputs["tokens"] == tokens.tolist()
        np.testing.assert_allclose(outputs["log_probability"], log_probabilities, rtol=1e-5)
        np.testing.assert_allclose(
            outputs["score"], log_probabilities / ((5 + tokens) / 6) ** 0.6, rtol=1e-5
        )


def test_warm_up_requests_run(replies):
    assert len(replies.warm_up) >= 3
    assert not [reply for reply in replies.warm_up if "error" in reply]


def test_wrong_requests_have_replies_and_change_nothing(small_export):
    good = {"signature": "score", "inputs": {"source": ["a"], "target": ["a"]}}
    mistakes = [
        {"signature": "none", "inputs": {}},
        {"signature": "score", "inputs": {"source": ["a"]}},
        {"signature": "score", "inputs": {"source": ["a"], "target": [1]}},
        {"signature": "score", "inputs": {"source": ["a"], "target": ["a"], "text": ["a"]}},
        {"inputs": {"text": {"b64": "?"}}},
        {"inputs": ["a"]},
        {"text": ["a"]},
    ]
    first, *wrong, last = ask(small_export, [good, *mistakes, good])
    assert first["outputs"] == last["outputs"]
    assert [list(answer) for answer in wrong] == [["error"]] * len(mistakes)
    assert wrong[0]["error"].startswith("signature: expected one of align, nbest, options")
    assert wrong[1]["error"] == "inputs of score: expected source, target; got source"
    assert wrong[2]["error"] == "input: expected an array of text, got int"


# Models that load in Python and fail in a server. Without these tests, a runtime more lenient
# than a server's would go unnoticed.


def filled(text: tf.Tensor) -> tf.Tensor:
    return tf.cast(text != "", tf.float32)[:, None]


class Tracking(tf.Module):
    """Tracks a Keras layer, whose variables the checkpoint restores under other names."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = keras.layers.Dense(2, name="dense")
        self.layer.build([None, 1])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def ask(self, text):
        return {"a": self.layer(filled(text))}


class Updating(tf.Module):
    """Uses an operation of XLA."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def ask(self, text):
        return {"a": keras.ops.slice_update(filled(text), (0, 0), tf.ones([1, 1]))}


class Plain(tf.Module):
    """Returns text and numbers of many types."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable([2.5])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def ask(self, text):
        numbers = filled(text)[:, 0] * self.weight
        types = (tf.float64, tf.bfloat16, tf.float16, tf.int32, tf.int64, tf.uint8, tf.bool)
        return {"text": text} | {item.name: tf.cast(numbers, item) for item in types}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[tf.Module], Path]:
    def save(module: tf.Module) -> Path:
        tf.saved_model.save(module, str(tmp_path), {lint.DEFAULT: module.ask})
        loaded = tf.saved_model.load(str(tmp_path)).signatures[lint.DEFAULT]
        loaded(text=tf.constant(["a"]))  # no error in Python
        return tmp_path

    return save


@pytest.mark.parametrize(
    ("module", "message"),
    [(Tracking, "Could not find variable dense/"), (Updating, "XLA compilation disabled")],
)
def test_models_that_fail_in_a_server_fail_in_the_runtime(saved, module, message):
    (answer,) = ask(saved(module()), [{"inputs": {"text": ["a"]}}])
    assert message in answer["error"]


def test_text_and_numbers_of_every_type(saved):
    lines = ["", "a", "ü" * 40, b"\xff".decode(errors="surrogateescape")]
    (answer,) = ask(saved(Plain()), [{"inputs": {"text": [sent(line) for line in lines]}}])
    outputs = answer["outputs"]
    assert outputs.pop("text") == ["", "a", "ü" * 40, {"b64": "/w=="}]
    whole = {name: outputs.pop(name) for name in ("int32", "int64", "uint8")}
    assert set(map(tuple, whole.values())) == {(0, 2, 2, 2)}
    assert outputs.pop("bool") == [False, True, True, True]
    assert set(outputs) == {"float64", "bfloat16", "float16"}
    assert set(map(tuple, outputs.values())) == {(0.0, 2.5, 2.5, 2.5)}


def test_a_folder_without_a_model(tmp_path):
    command = [sys.executable, "-m", MODULE, str(tmp_path / "none")]
    done = subprocess.run(command, input="", capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert re.search(r"^error: .*none", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr


def test_no_tensorflow_is_imported():
    code = f"import sys, {MODULE} as session\n"
    code += "session.installed(); print('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "False\n"
    with pytest.raises(c_api.CApiError, match="has not imported TensorFlow"):
        c_api.Runtime(tf_c_session.installed())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "choices"),
    [
        ("float32", {"positions": "alibi", "norm": "pre", "embeddings": "decoder"}),
        ("bfloat16", {"positions": "learned", "d_key": 6, "d_value": 10}),
        ("int8", {"positions": "rotary", "d_model": 64}),
        ("float32", {"architecture": "recurrent", "heads": 8, "d_ff": 2048}),
        ("bfloat16", {"architecture": "recurrent", "heads": 8, "d_ff": 2048}),
    ],
)
def test_every_kind_of_model_in_the_released_server(small_run, tmp_path, precision, choices):
    if not (RELEASED / "tensorflow").is_dir():
        pytest.skip(f"no libraries at {RELEASED}: `make test-slow` puts them there")
    config = dataclasses.replace(small_run.config.model, **choices)
    network = transformer.build(config, "bfloat16" if precision == "bfloat16" else "float32")
    module = ServedTranslator(
        network, Weights(network, precision), small_run.tokenizer(), small_run.config.search, 60
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.signatures)
    lint.check(tmp_path)
    requests = [{"signature": key, "inputs": inputs(key, LINES)} for key in SIGNATURES]
    for answer in ask(tmp_path, requests, RELEASED):
        assert "error" not in answer
        assert {shape[0] for shape in answer["shapes"].values()} == {len(LINES)}
