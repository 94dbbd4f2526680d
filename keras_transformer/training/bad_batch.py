"""The pairs of a step that went wrong, written down to be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from keras_transformer import system
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.prepared import Prepared
from keras_transformer.data.tokenizer import END, PAD

FILE = "bad_batch.json"


def write(folder: Path, prepared: Prepared, plan: BatchPlan, step: int) -> Path:
    """Write the batch of a step to ``bad_batch.json``.

    Args:
        folder: The run folder.
        prepared: The data of the run.
        plan: Its batches.
        step: 1 or more; which pairs it had follows from the plan.

    Returns:
        The file: ``step``, and ``pairs`` with the ``position`` of each in the encoded corpus,
        its ``source`` and its ``target``.

    Raises:
        FileError: It cannot be written.
    """
    epoch, place = divmod(step - 1, plan.batches_per_epoch)
    positions = plan.epoch(epoch)[place]
    ids = prepared.train.batch(positions)
    sources = prepared.tokenizer.source.decode(_without_end(ids["source"]))
    targets = prepared.tokenizer.target.decode(_without_end(ids["labels"]))
    pairs = [
        {"position": int(position), "source": source, "target": target}
        for position, source, target in zip(positions, sources, targets, strict=True)
    ]
    with system.atomic_file(folder / FILE) as place_aside:
        text = json.dumps({"step": step, "pairs": pairs}, ensure_ascii=False, indent=1)
        place_aside.write_text(text + "\n", encoding="utf-8")
    return folder / FILE


def _without_end(ids: np.ndarray) -> list[list[int]]:
    """(B, T) padded ids to lists without END and padding."""
    return [[int(token) for token in row if token not in (PAD, END)] for row in ids]
