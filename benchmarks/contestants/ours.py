"""This package as a contestant: ``python ours.py SETTINGS``; see ``protocol.py``."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import protocol

REPLIES = protocol.quiet()  # before the libraries say anything

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from keras_transformer import Translator  # noqa: E402
from keras_transformer.config import ModelConfig  # noqa: E402
from keras_transformer.inference.grouping import padded_ids, parallel_map  # noqa: E402
from keras_transformer.inference.search.constraints import Constraints  # noqa: E402
from keras_transformer.inference.search.step_function import Steps, as_steps  # noqa: E402
from keras_transformer.inference.search.strategies import beam_search  # noqa: E402
from keras_transformer.model import transformer  # noqa: E402
from keras_transformer.model.incremental.decoder import IncrementalDecoder  # noqa: E402
from keras_transformer.run import Run  # noqa: E402


def search_exactly(
    start: Any, source: tf.Tensor, settings: dict[str, Any], times: Any = None
) -> tf.Tensor:
    """Return the best translation of exactly ``length`` tokens, (B, length) ids, END last.

    Args:
        start: ``IncrementalDecoder.start``, or what stands in for it.
        source: (B, S) int32.
        settings: ``beam``, ``alpha`` and ``length``.
        times: Where to note when each step begins.
    """
    beam, length = settings["beam"], settings["length"]
    step, state = start(source, beam)
    if times is not None:
        step = Timed(as_steps(step, beam), times)
    found = beam_search(
        step,
        state,
        tf.fill([tf.shape(source)[0]], length),
        beam=beam,
        alpha=settings["alpha"],
        constraints=Constraints(min_length=length),
    )
    return found.tokens[:, 0]


class WithoutCache:
    """Step function without a cache: each step runs the decoder over the whole prefix.

    Args:
        model: A model from ``transformer.build``.
    """

    def __init__(self, model: keras.Model) -> None:
        self._features = transformer.features(model)
        self._projection = transformer.projection(model)

    def start(self, source: tf.Tensor, beam: int) -> tuple[Any, tf.Tensor]:
        """Return ``(step, state)``; the state is source (R, S) and prefix (R, t)."""

        def step(tokens: tf.Tensor, position: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
            source, target = state
            target = tf.concat([target, tokens[:, None]], axis=1)
            features = self._features({"source": source, "target": target}, training=False)
            return self._projection(features[:, -1], reverse=True), (source, target)

        repeated = tf.repeat(source, beam, axis=0)
        return step, (repeated, tf.zeros([tf.shape(repeated)[0], 0], tf.int64))


class Timed:
    """Step function that records the time of each call.

    Args:
        steps: What is timed.
        times: (T,) float64, seconds.
    """

    def __init__(self, steps: Steps, times: tf.Variable) -> None:
        self._steps = steps
        self._times = times
        self.reorder, self.select_and_reserve = steps.reorder, steps.select_and_reserve

    def __call__(self, tokens: tf.Tensor, position: tf.Tensor, state: Any) -> Any:
        """Call the step; its tokens arrive when the previous step is done."""
        with tf.control_dependencies([tokens]):
            now = tf.timestamp()
        self._times.scatter_nd_update([[position]], [now])
        return self._steps(tokens, position, state)


def build(settings: dict[str, Any]) -> keras.Model:
    """Return the network with the weights shared by all contestants."""
    model = transformer.build(ModelConfig(**settings["model"]), settings["dtype"])
    with np.load(Path(settings["folder"]) / "weights.npz") as file:
        model.set_weights([file[name] for name in file.files])
    return model


def prepare(settings: dict[str, Any]) -> None:
    """Store the weights of the run, or random ones, for all contestants."""
    if settings["run"]:
        model = Run.open(Path(settings["run"])).model()
    else:
        keras.utils.set_random_seed(1)
        model = transformer.build(ModelConfig(**settings["model"]))
    np.savez(Path(settings["folder"]) / "weights.npz", *model.get_weights())


def text(settings: dict[str, Any]) -> Any:
    """Return a function that translates lines."""
    run = Run.open(Path(settings["run"]))
    search = dataclasses.replace(
        run.config.search,
        beam=settings["beam"],
        alpha=settings["alpha"],
    )
    workers = settings["workers"]
    tf.config.threading.set_intra_op_parallelism_threads(protocol.threads(workers))
    tokenizer, data = run.tokenizer(), run.config.data
    translator = Translator(build(settings), tokenizer, search, data, workers, fixed=True)

    def answer(request: dict[str, Any]) -> list[str]:
        translator.search = dataclasses.replace(search, batch_tokens=request["batch_tokens"])
        return [one.text for one in translator.translate(request["lines"])]

    return answer


def exact(settings: dict[str, Any]) -> Any:
    """Return a function that translates ids into outputs of one length."""
    workers = settings["workers"]
    if workers > 1:
        tf.config.threading.set_intra_op_parallelism_threads(protocol.threads(workers))
    decoding = IncrementalDecoder(build(settings), fixed=True)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def find(source: tf.Tensor) -> tf.Tensor:
        return search_exactly(decoding.start, source, settings)

    def translate(batch: list[list[int]]) -> list[list[int]]:
        ids: list[list[int]] = find(tf.constant(padded_ids(batch))).numpy().tolist()
        return ids

    def answer(request: dict[str, Any]) -> list[list[int]]:
        found = parallel_map(translate, request["batches"], workers)
        return [ids for batch in found for ids in batch]

    return answer


def positions(settings: dict[str, Any]) -> Any:
    """Return a function that reports the start time of each search step, in seconds."""
    model = build(settings)
    start = (
        IncrementalDecoder(model, fixed=True).start
        if settings["cache"]
        else WithoutCache(model).start
    )
    times = tf.Variable(tf.zeros([settings["length"]], tf.float64))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def find(source: tf.Tensor) -> tf.Tensor:
        return search_exactly(start, source, settings, times)

    def answer(request: dict[str, Any]) -> list[list[float]]:
        (batch,) = request["batches"]
        find(tf.constant(padded_ids(batch))).numpy()
        return [times.numpy().tolist()]

    return answer


def main() -> None:
    """Prepare, or answer requests."""
    settings = json.loads(sys.argv[1])
    if settings["task"] == "prepare":
        prepare(settings)
    else:
        tasks = {"text": text, "exact": exact, "positions": positions}
        protocol.serve(tasks[settings["task"]](settings), REPLIES, ["tensorflow", "keras"])


if __name__ == "__main__":
    main()
