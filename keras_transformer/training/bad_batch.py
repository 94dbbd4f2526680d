"""The pairs of a step with a loss that is not finite, written to a file for inspection."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from keras_transformer import system
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.prepared import Prepared
from keras_transformer.special_tokens import END, PAD

FILE = "bad_batch.json"


def write(folder: Path, prepared: Prepared, plan: BatchPlan, step: int) -> Path:
    """Write the batch of a step to ``bad_batch.json``.

    Args:
        folder: The run folder.
        prepared: The data of the run.
        plan: Its batches; the step's pairs follow from it.
        step: 1 or more.

    Returns:
        The path of the file. It holds ``step`` and ``pairs``, each with its ``position`` in
        the encoded corpus, its ``source`` and its ``target``.

    Raises:
        FileError: The file cannot be written.
    """
    epoch, number = divmod(step - 1, plan.batches_per_epoch)
    positions = plan.epoch(epoch)[number]
    ids = prepared.train.batch(positions)
    sources = prepared.tokenizer.source.decode(_without_end(ids["source"]))
    targets = prepared.tokenizer.target.decode(_without_end(ids["labels"]))
    pairs = [
        {"position": int(position), "source": source, "target": target}
        for position, source, target in zip(positions, sources, targets, strict=True)
    ]
    system.write_json(folder / FILE, {"step": step, "pairs": pairs})
    return folder / FILE


def _without_end(ids: np.ndarray) -> list[list[int]]:
    """Return (B, T) padded ids as lists without END and padding."""
    return [[int(token) for token in row if token not in (PAD, END)] for row in ids]
