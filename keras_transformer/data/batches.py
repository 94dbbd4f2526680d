"""tf.data pipeline: the batches of a plan as tensors, whole or in shards for several devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from keras_transformer.compat.tensorflow import without_autotune
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.store import EncodedStore


@dataclasses.dataclass(frozen=True)
class Shards:
    """Division of every batch into shards, and the consecutive shards of one worker."""

    total: int = 1
    """Shards per batch: the devices of all workers."""
    first: int = 0
    """Index of this worker's first shard."""
    count: int = 1
    """Shards of this worker: its devices."""


WHOLE_BATCH = Shards()
"""One shard that is the whole batch."""


def _elements(
    store: EncodedStore, plan: BatchPlan, start_step: int, repeat: bool, shards: Shards
) -> Iterator[Any]:
    epoch, position = divmod(start_step, plan.batches_per_epoch)
    while True:
        for indices in plan.epoch(epoch)[position:]:
            for shard in range(shards.first, shards.first + shards.count):
                # Every n-th pair: a batch is sorted by length, and shards should be equal.
                rows = indices[shard :: shards.total]
                shape = plan.shape(indices) if len(rows) else (1, 1, 1)
                batch = store.batch(rows, shape)
                labels = batch.pop("labels")
                yield batch, labels
        if not repeat:
            return
        epoch, position = epoch + 1, 0


def dataset(
    store: EncodedStore,
    plan: BatchPlan,
    start_step: int = 0,
    repeat: bool = True,
    shards: Shards = WHOLE_BATCH,
) -> tf.data.Dataset:
    """Build a dataset of the batches of a plan, in the plan's order.

    Every batch matches one element_spec of unknown sizes, so that a function with this
    input signature is traced once.

    Args:
        store: The encoded pairs.
        plan: A plan made from the lengths of ``store``.
        start_step: Number of batches to skip; nothing is read for them.
        repeat: Continue with the next epoch without end; otherwise stop after the epoch.
        shards: The shards of each batch to yield, one element each. A shard without a pair is
            one row of padding.

    Returns:
        Elements ``({"source": (B, S), "target": (B, T)}, labels (B, T))``, all int32.

    Raises:
        ValueError: ``start_step`` is negative, or a plan of fixed shapes is to be sharded.
    """
    if start_step < 0:
        raise ValueError(f"start_step: expected 0 or more, got {start_step}")
    if plan.shapes and shards.total > 1:
        raise ValueError(f"shards: expected 1 in total with fixed shapes, got {shards.total}")
    ids = tf.TensorSpec((None, None), tf.int32)
    stream = tf.data.Dataset.from_generator(
        lambda: _elements(store, plan, start_step, repeat, shards),
        output_signature=({"source": ids, "target": ids}, ids),
    )
    return without_autotune(stream.prefetch(2))
