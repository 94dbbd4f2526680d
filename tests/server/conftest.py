"""Small quick models: a real SavedModel, and scripted models in Python."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from starlette.testclient import TestClient

from keras_transformer.server.app import Service
from keras_transformer.server.servable import Servable
from keras_transformer.server.settings import Settings
from keras_transformer.server.signature import Signature, Spec
from keras_transformer.serving import card as card_writer

TEXT = Spec("string", (None,))
SCORE = Spec("float32", (None,))


@pytest.fixture
def run():
    """Run an async function in a new thread.

    The main thread may have a running event loop of the browser tests.
    """

    def in_thread(main):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(main())).result(60)

    return in_thread


class Scripted:
    """A model in Python that returns upper case; it records its batches, can wait or fail."""

    def __init__(self):
        self.batches = []
        self.free = threading.Event()
        self.free.set()
        self.pause = 0.0

    def _upper(self, inputs):
        texts = inputs["text"].tolist()
        self.batches.append([text.decode("utf-8", "replace") for text in texts])
        assert self.free.wait(20)
        time.sleep(self.pause)
        if b"explode" in texts:
            raise ValueError("the text explodes")
        scores = np.array([-len(text) for text in texts], dtype=np.float32)
        return {"translation": np.array([t.upper() for t in texts], dtype=object), "score": scores}

    def _pieces(self, inputs):
        """The letters of each text, padded with "" to the longest of the batch."""
        texts = [text.decode() for text in inputs["text"].tolist()]
        self.batches.append(texts)
        longest = max(map(len, texts), default=0)
        grid = np.full((len(texts), longest), b"", dtype=object)
        for row, text in enumerate(texts):
            grid[row, : len(text)] = [letter.encode() for letter in text]
        return {"pieces": grid, "lengths": np.array([len(t) for t in texts], dtype=np.int32)}

    def _add(self, inputs):
        return {"sum": np.asarray(inputs["a"] + inputs["b"])}

    def _broken(self, inputs):
        return {"translation": np.array([b"one"], dtype=object)}

    def load(self, folder):
        """The loader for ``Service``."""
        if (folder / "broken").exists():
            raise OSError(f"{folder.name} is broken")
        signatures = [
            Signature(
                "serving_default", "p", {"text": TEXT}, {"translation": TEXT, "score": SCORE}
            ),
            Signature(
                "align",
                "p",
                {"text": TEXT},
                {"pieces": Spec("string", (None, None)), "lengths": Spec("int32", (None,))},
            ),
            Signature(
                "add",
                "p",
                {"a": Spec("float32", ()), "b": Spec("float32", ())},
                {"sum": Spec("float32", ())},
            ),
            Signature("broken", "p", {"text": TEXT}, {"translation": TEXT}),
        ]
        functions = [self._upper, self._pieces, self._add, self._broken]
        return Servable(
            {signature.name: signature for signature in signatures},
            {signature.name: f for signature, f in zip(signatures, functions, strict=True)},
        )


@pytest.fixture
def scripted():
    """A scripted model."""
    return Scripted()


@pytest.fixture
def folder(tmp_path):
    """A model's folder with an empty version 1, for scripted models."""
    place = tmp_path / "toy"
    add_version(place, 1)
    return place


def add_version(place, number):
    """Add an empty version, which only scripted models can load."""
    version = place / f"{number}"
    version.mkdir(parents=True)
    (version / "saved_model.pb").touch()


@pytest.fixture(name="add_version")
def _add_version():
    return add_version


@pytest.fixture
def client(folder, scripted):
    """Make a client of a server with a scripted model: ``client(max_queue=5)``."""
    opened = []

    def make(labels=None, **changes):
        changes = {"name": "toy", "poll_s": 0.02} | changes
        service = Service(folder, Settings(**({"batches": 1} | changes)), labels, scripted.load)
        test_client = TestClient(service.app(), raise_server_exceptions=False)
        test_client.service = service
        opened.append(test_client)
        return test_client.__enter__()

    yield make
    scripted.free.set()
    for test_client in opened:
        test_client.__exit__(None, None, None)


def shouting_module(scale):
    """A tf.Module with a translator's signatures that returns upper case; "explode" fails."""
    import tensorflow as tf

    class Shouter(tf.Module):
        def __init__(self):
            super().__init__()
            self.scale = tf.Variable(scale)

        def outputs(self, text):
            check = tf.debugging.assert_none_equal(text, "explode", message="it explodes")
            with tf.control_dependencies([check]):
                length = tf.cast(tf.strings.length(text, "UTF8_CHAR"), tf.float32)
            return {
                "translation": tf.strings.upper(text),
                "score": self.scale * length / 10.0,
                "truncated": length > 100.0,
            }

        @tf.function
        def translate(self, text):
            return self.outputs(text)

        @tf.function
        def nbest(self, text):
            both = tf.stack([tf.strings.upper(text), text], axis=1)
            scores = tf.stack([self.outputs(text)["score"]] * 2, axis=1)
            return {"translations": both, "scores": scores}

        @tf.function
        def options(self, text, alpha, max_extra):
            found = self.outputs(text)
            extra = tf.cast(max_extra, tf.float32)
            return {**found, "score": found["score"] * alpha + extra}

        @tf.function
        def align(self, text):
            pieces = tf.strings.unicode_split(text, "UTF-8").to_tensor("")
            attention = tf.cast(tf.not_equal(pieces, ""), tf.float32)[:, :, None]
            return {**self.outputs(text), "source_pieces": pieces, "attention": attention}

    return Shouter()


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """A version folder: the SavedModel of ``shouting_module``."""
    return save_shouter(tmp_path_factory.mktemp("models") / "1")


def save_shouter(version, scale=-1.0):
    """Save ``shouting_module`` with a card as a version folder."""
    import tensorflow as tf

    shouter = shouting_module(scale)
    text = tf.TensorSpec([None], tf.string, name="text")
    alpha = tf.TensorSpec([None], tf.float32, name="alpha")
    extra = tf.TensorSpec([None], tf.int32, name="max_extra")
    translate = shouter.translate.get_concrete_function(text)
    tf.saved_model.save(
        shouter,
        str(version),
        {
            "serving_default": translate,
            "translate": translate,
            "nbest": shouter.nbest.get_concrete_function(text),
            "options": shouter.options.get_concrete_function(text, alpha, extra),
            "align": shouter.align.get_concrete_function(text),
        },
    )
    card = {"languages": {"source": "en", "target": "EN"}, "search": {"beam": 4, "n_best": 2}}
    card_writer.write(version, card | {"sha256": card_writer.checksums(version)})
    return version


@pytest.fixture(name="save_shouter", scope="session")
def _save_shouter():
    return save_shouter


@pytest.fixture(scope="session")
def exported(saved_model):
    """The folder of a model ``shout`` with version 1."""
    place = saved_model.parent / "shout"
    shutil.copytree(saved_model, place / "1")
    return place


@pytest.fixture(scope="session")
def shout(exported):
    """A client of a server with the real SavedModel."""
    service = Service(exported, Settings(name="shout"), {"stable": 1, "next": 2})
    with TestClient(service.app(), raise_server_exceptions=False) as test_client:
        yield test_client
