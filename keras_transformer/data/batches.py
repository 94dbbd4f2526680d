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


def _elements(store: EncodedStore, plan: BatchPlan, start_step: int, repeat: bool) -> Iterator[Any]:
    epoch, position = divmod(start_step, plan.batches_per_epoch)
    while True:
        for indices in plan.epoch(epoch)[position:]:
            batch = store.batch(indices, plan.shape(indices))
            labels = batch.pop("labels")
            yield batch, labels
        if not repeat:
            return
        epoch, position = epoch + 1, 0


def _shard(ids: tf.Tensor, index: tf.Tensor, shards: Shards, trim: bool) -> tf.Tensor:
    """Return a shard of ids (B, T): every n-th pair, since a batch is sorted by length."""
    own = ids[index :: shards.total]
    # A shard without a pair is one row of padding.
    own = tf.pad(own, [[0, tf.maximum(1 - tf.shape(own)[0], 0)], [0, 0]])
    if not trim:
        missing = (tf.shape(ids)[0] + shards.total - 1) // shards.total - tf.shape(own)[0]
        return tf.pad(own, [[0, missing], [0, 0]])
    longest = tf.reduce_max(tf.math.count_nonzero(own, axis=1, dtype=tf.int32))
    return own[:, : tf.maximum(longest, 1)]


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
        ValueError: ``start_step`` is negative.
    """
    if start_step < 0:
        raise ValueError(f"start_step: expected 0 or more, got {start_step}")
    ids = tf.TensorSpec((None, None), tf.int32)
    stream = tf.data.Dataset.from_generator(
        lambda: _elements(store, plan, start_step, repeat),
        output_signature=({"source": ids, "target": ids}, ids),
    )
    if shards != WHOLE_BATCH:
        # In TensorFlow: Python would take as long for each shard, and hold its lock.
        own = tf.data.Dataset.range(shards.first, shards.first + shards.count, output_type=tf.int32)

        def deal(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.data.Dataset:
            def shard(index: tf.Tensor) -> Any:
                return tf.nest.map_structure(
                    lambda each: _shard(each, index, shards, trim=not plan.shapes),
                    (inputs, labels),
                )

            return own.map(shard)

        stream = stream.flat_map(deal)
    if repeat:  # otherwise each step would ask whether there is a batch
        stream = stream.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return without_autotune(stream.prefetch(2 * shards.count))
