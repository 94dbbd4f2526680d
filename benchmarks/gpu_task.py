"""One measurement of ``gpu.py``, in a process of its own: ``python gpu_task.py SETTINGS``.

The settings are JSON with a task; the figures are printed as the last line, in JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import Config, ModelConfig, SearchConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batches import dataset
from keras_transformer.devices import best_precision, describe_devices, gpu_details, has_gpu
from keras_transformer.inference.inference_functions import InferenceFunctions
from keras_transformer.model import transformer
from keras_transformer.presets import preset
from keras_transformer.special_tokens import END, START
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.parts import micro_batches
from keras_transformer.training.step import build_model

Figures = dict[str, Any]


class RandomPairs:
    """Pairs of random ids whose lengths are like those of WMT14, in place of an encoded corpus."""

    def __init__(self, pairs: int, vocabulary: int) -> None:
        rng = np.random.default_rng(1)
        lengths = np.clip(rng.lognormal(3.2, 0.5, pairs), 2, 100).astype(np.int32)  # mean 27
        self.source_lengths = lengths
        self.target_lengths = np.clip(lengths + rng.integers(-3, 4, pairs), 2, 100).astype(np.int32)
        self._ids = rng.integers(END + 1, vocabulary, (4096, 100)).astype(np.int32)

    def batch(self, indices: np.ndarray, shape: Any = None) -> dict[str, np.ndarray]:
        """Return padded ids as `data.store.EncodedStore` does."""
        sides = self.source_lengths[indices], self.target_lengths[indices]
        rows, *widths = shape or (len(indices), *(int(lengths.max()) for lengths in sides))
        source, labels = (
            self._padded(indices, lengths, rows, width)
            for lengths, width in zip(sides, widths, strict=True)
        )
        target = np.zeros_like(labels)
        target[: len(indices), 0] = START
        target[:, 1:] = np.where(labels[:, :-1] == END, 0, labels[:, :-1])
        return {"source": source, "target": target, "labels": labels}

    def _padded(self, indices: Any, lengths: np.ndarray, rows: int, width: int) -> np.ndarray:
        ids = np.zeros((rows, width), np.int32)
        places = np.arange(width)
        own = self._ids[np.asarray(indices) % len(self._ids), :width]
        ids[: len(indices)] = np.where(places < lengths[:, None] - 1, own, 0)
        ids[np.arange(len(indices)), lengths - 1] = END
        return ids


def operations(model: ModelConfig, source: np.ndarray, target: np.ndarray) -> float:
    """Return the operations of a training step on pairs of these lengths, as docs/scaling.md."""
    width, inner = model.d_model, model.d_ff
    s, t = source.astype(float), target.astype(float)
    encoder = 2 * model.encoder_layers * ((4 * width**2 + 2 * width * inner) * s + 2 * width * s**2)
    decoder = (
        2
        * model.decoder_layers
        * ((8 * width**2 + 2 * width * inner) * t + 2 * width * (t**2 + s * t))
    )
    projection = 2 * model.target_vocabulary_size * width * t
    return float(3 * (encoder + decoder + projection).sum())


def configuration(settings: Figures) -> Config:
    """Return a preset with the sizes of the settings."""
    chosen = preset(settings["model"])
    sizes = {f"{side}_vocabulary_size": settings["vocabulary"] for side in ("source", "target")}
    model = dataclasses.replace(chosen.model, **sizes, **settings.get("sizes", {}))
    return dataclasses.replace(
        chosen, model=model, train=dataclasses.replace(chosen.train, **settings["train"])
    )


class Rounds(keras.callbacks.Callback):
    """Callback that times the steps after a warm-up, and ends `fit` after some seconds."""

    def __init__(self, warm: int, seconds: float) -> None:
        super().__init__()
        self._warm, self._seconds = warm, seconds
        self.taken, self.started = 0, 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step."""
        self.taken += 1
        if self.taken == self._warm:
            self._wait()
            self.started = time.perf_counter()
        elif self.taken > self._warm and time.perf_counter() - self.started > self._seconds:
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Wait for the last step."""
        self._wait()
        self.seconds = time.perf_counter() - self.started

    def _wait(self) -> None:
        self.model.optimizer.iterations.value.numpy()


def train(settings: Figures) -> Figures:
    """Measure `fit` on random pairs: tokens and operations per second, memory."""
    config = configuration(settings)
    if config.train.deterministic:
        tf.config.experimental.enable_op_determinism()
    distribution = Distribution("gpu:1" if has_gpu() else "cpu")
    keras.utils.set_random_seed(1)
    store = RandomPairs(settings["pairs"], settings["vocabulary"])
    plan = BatchPlan(
        *(store.source_lengths, store.target_lengths, config.train.batch_tokens, 1),
        fixed_shapes=config.train.jit,
    )
    with distribution.strategy.scope():
        model = build_model(config, micro_batches(config.train, 1))
    batches = distribution.strategy.distribute_datasets_from_function(
        lambda _: dataset(store, plan, shards=distribution.shards)
    )
    rounds = Rounds(settings["warm"], settings["seconds"])
    try:
        model.fit(batches, shuffle=False, steps_per_epoch=1_000_000, callbacks=[rounds], verbose=0)
    except tf.errors.ResourceExhaustedError:
        return {"out_of_memory": True}
    steps = range(settings["warm"], rounds.taken)
    counted = [
        plan.epoch(number // plan.batches_per_epoch)[number % plan.batches_per_epoch]
        for number in steps
    ]
    sides = [(store.source_lengths[rows], store.target_lengths[rows]) for rows in counted]
    return {
        "milliseconds_per_step": 1000 * rounds.seconds / len(steps),
        "tokens_per_second": sum(int(s.sum() + t.sum()) for s, t in sides) / rounds.seconds,
        "operations_per_second": sum(operations(config.model, s, t) for s, t in sides)
        / rounds.seconds,
        "mebibytes": peak_memory(),
        "steps": len(steps),
        "finite": all(np.isfinite(weight).all() for weight in model.get_weights()),
    }


def peak_memory() -> float:
    """Return the most memory in use so far: of the GPU, or of this process without one. In MiB."""
    if has_gpu():
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def decode(settings: Figures) -> Figures:
    """Measure a search with random weights; every translation ends at its limit, or earlier."""
    config = configuration(settings)
    keras.utils.set_random_seed(1)
    model = transformer.build(config.model, settings["dtype"])
    search = SearchConfig(beam=settings["beam"], max_extra=1)
    functions = InferenceFunctions(model, search, fixed=True)
    rng = np.random.default_rng(2)
    source = rng.integers(
        END + 1, settings["vocabulary"], (settings["sentences"], settings["length"])
    ).astype(np.int32)
    source[:, -1] = END

    def once() -> int:
        return int(functions.search(source).lengths.numpy()[:, 0].sum())

    tokens = once()
    seconds = timed(once, settings["seconds"])
    return {
        "milliseconds": 1000 * seconds,
        "sentences_per_second": len(source) / seconds,
        "tokens_per_second": tokens / seconds,
        "mebibytes": peak_memory(),
    }


def device(settings: Figures) -> Figures:
    """Describe the device, and measure its product of large matrices in each precision."""
    size, gpus = settings["size"], gpu_details()
    found: Figures = {"device": describe_devices(1, gpus[:1]), "tensorflow": tf.__version__}
    found["precision"], found["reason"] = best_precision(gpus[:1])
    for dtype in ("float32", "bfloat16", "float16"):
        if dtype == "float16" and not gpus:
            continue  # no CPU library computes in it
        a = tf.cast(tf.random.stateless_normal([size, size], [1, 2]), dtype)

        @tf.function
        def product(a: tf.Tensor = a) -> tf.Tensor:
            return tf.matmul(a, a)[0, 0]

        product()
        found[dtype] = 2 * size**3 / timed(lambda run=product: run().numpy(), settings["seconds"])
    return found


def timed(run: Callable[[], Any], limit: float) -> float:
    """Return the median time of some calls, in seconds: at least three, then up to a limit."""
    found: list[float] = []
    while len(found) < 3 or sum(found) < limit:
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return median(found)


def compare(settings: Figures) -> Figures:
    """Compare the last checkpoints of two runs, tensor by tensor."""
    checkpoints = [
        tf.train.load_checkpoint(str(Path(run) / "checkpoints" / f"step-{settings['step']}"))
        for run in settings["runs"]
    ]
    names = [
        name
        for name in checkpoints[0].get_variable_to_shape_map()
        if "ATTRIBUTES" in name and "seconds" not in name
    ]
    different = [name for name in names if not same(checkpoints, name)]
    return {"tensors": len(names), "different": len(different)}


def same(checkpoints: Sequence[Any], name: str) -> bool:
    """Return whether two checkpoints have the same bytes under a name."""
    one, other = (checkpoint.get_tensor(name) for checkpoint in checkpoints)
    return bool(np.asarray(one).tobytes() == np.asarray(other).tobytes())


def main() -> None:
    """Run the task of the settings."""
    settings = json.loads(sys.argv[1])
    tasks = {"train": train, "decode": decode, "device": device, "compare": compare}
    print(json.dumps(tasks[settings["task"]](settings)))


if __name__ == "__main__":
    main()
