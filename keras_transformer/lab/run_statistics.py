"""Statistics of a finished or diverged run: outcome, sizes, curves, measured checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer import system
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.prepared import Prepared
from keras_transformer.formats import versions
from keras_transformer.lab import measurements
from keras_transformer.run import Run
from keras_transformer.system import core_count
from keras_transformer.training import bad_batch
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.scores import is_checkpoint

MAX_CHECKPOINTS = 6
"""Most checkpoints that are measured, besides the initial weights."""
MAX_TRAIN_POINTS = 100
"""Most points of the training curve."""
COLLAPSE_RISE = 1.0
"""A run has collapsed if its last dev loss is this many nats a token above its lowest."""
LEARNED_BELOW = 0.95
"""A run has learned if its lowest dev loss is below this share of `unigram_loss`."""

Records = Sequence[dict[str, Any]]


def collect(run: Run, curves: bool = True) -> dict[str, Any]:
    """Return the fields of a result, except its final scores.

    Args:
        run: A run that is finished or has diverged.
        curves: Whether to measure the checkpoints and return the curves.
    """
    log, prepared = RunLog(run.path, silent=True), run.prepared(lambda line: None)
    checkpoints = [record for record in log.records() if is_checkpoint(record)]
    steps = log.steps()
    # A run that ends between two lines of the log has its last checkpoint after the last line.
    last_step = max([0, *(each["step"] for each in [*steps, *checkpoints])])
    tokens = _cumulative_tokens(run, prepared, last_step)
    curve = [_point(record, "dev", tokens) for record in checkpoints]
    start = measurements.measure(run)
    unigram = unigram_loss(prepared)
    diverged = _diverged_at(run.path)
    last = checkpoints[-1] if checkpoints else (steps[-1] if steps else {"step": 0})
    values: dict[str, Any] = {
        "outcome": outcome([point["nll"] for point in curve], unigram, diverged is not None),
        "diverged_at": diverged,
        "steps": last["step"],
        "target_tokens": int(tokens[last["step"]]),
        "seconds": last.get("seconds", 0.0),
        "tokens_per_core_second": tokens_per_core_second(steps),
        "parameters": run_parameters(run),
        "first_loss": start["nll_per_token"],
        "ln_vocabulary": start["ln_vocabulary"],
        "unigram_nll": unigram,
        "pairs": len(prepared.train),
        "versions": versions(),
        "processor": run.last_session().get("processor", ""),
        "cores": core_count(),
    }
    if curves:
        stride = max(math.ceil(len(steps) / MAX_TRAIN_POINTS), 1)
        values["curve"] = curve
        values["train_curve"] = [_point(each, "train", tokens) for each in steps[::stride]]
        values["measurements"] = [
            {"step": 0, "target_tokens": 0, **start},
            *(
                {
                    "step": step,
                    "target_tokens": int(tokens[step]),
                    **measurements.measure(run, path),
                }
                for step, path in _kept_weights(run)
            ),
        ]
    return values


def tokens_per_core_second(steps: Records) -> float | None:
    """Return target tokens per second of processor time, the median of the progress records.

    Unlike tokens per second, it hardly depends on other processes and on the number of cores.
    """
    speeds = [
        each["target_tokens_per_second"]
        * each["seconds_per_step"]
        / each["processor_seconds_per_step"]
        for each in steps[1:]  # the first has the time of tracing
        if each["processor_seconds_per_step"] > 0
    ]
    return float(np.median(speeds)) if speeds else None


def outcome(losses: Sequence[float | None], unigram: float, diverged: bool) -> str:
    """Return "learned", "did not learn", "collapsed" or "diverged".

    Args:
        losses: Dev loss of each checkpoint, unsmoothed, in nats a token; None if not finite.
        unigram: Dev loss of a unigram model, from `unigram_loss`.
        diverged: Whether a loss or gradient was not finite.
    """
    if diverged:
        return "diverged"
    finite = [math.inf if loss is None else loss for loss in losses]
    if min(finite, default=math.inf) > LEARNED_BELOW * unigram:
        return "did not learn"
    return "collapsed" if finite[-1] > min(finite) + COLLAPSE_RISE else "learned"


def unigram_loss(prepared: Prepared) -> float:
    """Return the dev loss of a unigram model of the target side, in nats a token."""
    counts = np.ones(prepared.tokenizer.target.size)  # add-one smoothing
    counts += _token_counts(prepared, "train")
    dev = _token_counts(prepared, "dev")
    return float(-(dev * np.log(counts / counts.sum())).sum() / dev.sum())


def _token_counts(prepared: Prepared, name: str) -> np.ndarray:
    """Return (V,) counts of the target tokens, end tokens included."""
    store = getattr(prepared, name)
    counts = np.zeros(prepared.tokenizer.target.size, np.int64)
    for first in range(0, len(store), 1_000):
        rows = np.arange(first, min(first + 1_000, len(store)))
        labels = store.batch(rows)["labels"]
        counts += np.bincount(labels[labels > 0], minlength=len(counts))
    return counts


def run_parameters(run: Run) -> int:
    """Return the number of parameters of a run's model."""
    from keras_transformer.model import transformer

    return int(transformer.build(run.config.model).count_params())


def _cumulative_tokens(run: Run, prepared: Prepared, steps: int) -> np.ndarray:
    """Return (steps + 1,) numbers of target tokens seen after each step, end tokens included."""
    train, lengths = run.config.train, prepared.train.target_lengths
    plan = BatchPlan(
        prepared.train.source_lengths, lengths, train.batch_tokens, train.seed, train.jit
    )
    sums: list[int] = []
    epoch = 0
    while len(sums) < steps:
        sums += [int(lengths[rows].sum()) for rows in plan.epoch(epoch)]
        epoch += 1
    return np.concatenate([[0], np.cumsum(sums[:steps], dtype=np.int64)]).astype(np.int64)


def _point(record: dict[str, Any], kind: str, tokens: np.ndarray) -> dict[str, Any]:
    """Return a point of a curve from a record of metrics.jsonl or steps.jsonl."""
    step, perplexity = record["step"], record.get(f"{kind}_perplexity")
    point = {
        "step": step,
        "target_tokens": int(tokens[step]),
        "nll": None if not perplexity else math.log(perplexity),
    }
    names = {"dev_bleu": "bleu", "seconds": "seconds", "gradient_norm": "gradient_norm"}
    return point | {new: record[old] for old, new in names.items() if old in record}


def _kept_weights(run: Run) -> list[tuple[int, Path]]:
    """Return step and weights of at most MAX_CHECKPOINTS checkpoints, evenly spaced to the last."""
    paths = (run.path / "best").glob("*.weights.h5")
    found = sorted((int(path.name.split(".")[0]), path) for path in paths)
    if len(found) <= MAX_CHECKPOINTS:
        return found
    rows = np.linspace(0, len(found) - 1, MAX_CHECKPOINTS).round().astype(int)
    return [found[row] for row in rows]


def _diverged_at(path: Path) -> int | None:
    """Return the step whose loss or gradient was not finite, if there is one."""
    file = path / bad_batch.FILE
    return int(json.loads(system.read_text(file))["step"]) if file.exists() else None
