"""This package in training: ``python train_ours.py SETTINGS``; see ``protocol.Rounds``.

``fit`` of the trainer's model on the trainer's batches.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import protocol

REPLIES = protocol.quiet()  # before the libraries say anything

from keras_transformer.allocator import tune_allocator  # noqa: E402

tune_allocator()  # as the training command, before TensorFlow takes memory

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from keras_transformer.config import Config, from_dict  # noqa: E402
from keras_transformer.data.batch_plan import BatchPlan  # noqa: E402
from keras_transformer.data.batches import dataset  # noqa: E402
from keras_transformer.data.prepared import Prepared  # noqa: E402
from keras_transformer.run import Run  # noqa: E402
from keras_transformer.training.reporting.run_log import RunLog  # noqa: E402
from keras_transformer.training.trainer import Trainer  # noqa: E402


class _Pausing(keras.callbacks.Callback):
    """Callback that counts steps and pauses after the last one of a round."""

    def __init__(self, rounds: protocol.Rounds, plan: BatchPlan, prepared: Prepared) -> None:
        super().__init__()
        self._rounds, self._plan, self._store = rounds, plan, prepared.train
        self._epoch: list[Any] = []
        self._step = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the tokens of the batch, known from the plan."""
        number, place = divmod(self._step, self._plan.batches_per_epoch)
        if place == 0:
            self._epoch = self._plan.epoch(number)
        rows = self._epoch[place]
        sides = (self._store.source_lengths[rows], self._store.target_lengths[rows])
        self._step += 1
        self._rounds.count(
            sum(int(lengths.sum()) for lengths in sides),
            sum(len(rows) * int(lengths.max()) for lengths in sides),
        )


def _waiting(model: keras.Model, batches: tf.data.Dataset, steps: int) -> float:
    """Return the share of time that steps wait for their batch."""

    @tf.function(autograph=False, reduce_retracing=True)
    def step(batch: Any) -> Any:
        return model.distribute_strategy.run(model.train_step, args=(batch,))

    iterator = iter(batches)
    for _ in range(3):  # the first take longer
        step(next(iterator))
    waited, started = 0.0, time.perf_counter()
    for _ in range(steps):
        before = time.perf_counter()
        batch = next(iterator)
        waited += time.perf_counter() - before
        tf.nest.map_structure(lambda value: value.numpy(), step(batch))
    return waited / (time.perf_counter() - started)


def main() -> None:
    """Train in rounds, or report the share of waiting."""
    settings = json.loads(sys.argv[1])
    config: Config = from_dict(settings["config"])
    run = Run(Path(settings["run"]), config)
    prepared = run.prepared(lambda line: None)
    model = Trainer(run, prepared, RunLog(run.path)).parts.model
    store, train = prepared.train, config.train
    plan = BatchPlan(store.source_lengths, store.target_lengths, train.batch_tokens, train.seed)
    batches = dataset(store, plan)
    if settings["task"] == "waiting":
        share = _waiting(model, batches, settings["steps"])
        with open(REPLIES, "w", encoding="utf-8") as file:
            print(json.dumps(share), file=file)
        return
    rounds = protocol.Rounds(REPLIES, ["tensorflow", "keras"])
    model.fit(
        batches,
        shuffle=False,
        steps_per_epoch=1_000_000,
        callbacks=[_Pausing(rounds, plan, prepared)],
        verbose=0,
    )


if __name__ == "__main__":
    main()
