"""Comparison of a disturbed run with an uninterrupted one, bit by bit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.soak.libraries import tensorflow
from tools.soak.trials import TrialError

Arrays = Mapping[str, np.ndarray]

INTERVAL_MEANS = frozenset({"train_loss", "train_perplexity", "gradient_norm"})
"""Fields of metrics.jsonl over all steps since a checkpoint, or since a resume after it."""

_RESUMED = re.compile(r"resuming after step (\d+)$", re.MULTILINE)
_STOPPED = re.compile(r"stopped by \w+; saved at step (\d+),")


def check_same_run(ours: Path, theirs: Path, every: int) -> None:
    """Check that two finished runs have the same results.

    Args:
        ours: Folder of the disturbed run.
        theirs: Folder of the uninterrupted run.
        every: Steps between two regular checkpoints.

    Raises:
        TrialError: Names the differences.
    """
    log = (ours / "log.txt").read_text(encoding="utf-8")
    found = metric_differences(
        read_records(ours / "metrics.jsonl"),
        read_records(theirs / "metrics.jsonl"),
        resumed_between(log, every),
    )
    found += name_differences(file_names(ours), file_names(theirs))
    steps = [checkpoint_steps(run) for run in (ours, theirs)]
    found += _sequence_differences("checkpoints", *steps)
    for step in sorted(set(steps[0]) & set(steps[1])):  # the average is made of all of them
        tensors = [read_checkpoint(run, step) for run in (ours, theirs)]
        found += array_differences(f"checkpoint {step}", *tensors)
    names = [sorted(_weight_files(run)) for run in (ours, theirs)]
    found += _sequence_differences("weights", *names)
    for name in sorted(set(names[0]) & set(names[1])):
        found += array_differences(name, read_weights(ours / name), read_weights(theirs / name))
    texts = [(run / "dev.translations.txt").read_bytes() for run in (ours, theirs)]
    found += ["dev.translations.txt differs"] * (texts[0] != texts[1])
    raise_differences(found)


def file_names(run: Path) -> list[str]:
    """Return the names of all files of a run, hidden ones too."""
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())


def name_differences(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the files that are missing or left behind."""
    found = [f"missing: {name}" for name in theirs if name not in ours]
    return found + [f"left behind: {name}" for name in ours if name not in theirs]


def raise_differences(found: Sequence[str]) -> None:
    """Raise an error that names the first differences.

    Raises:
        TrialError: There is at least one.
    """
    if found:
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        raise TrialError("; ".join(found[:5]) + more)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a metrics.jsonl; a damaged line is an error.

    Raises:
        TrialError: A line is no JSON.
    """
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise TrialError(f"{path.name}: {error}") from None


def resumed_between(log: str, every: int) -> set[int]:
    """Return the checkpoints whose interval was divided by a stop and a resume.

    A stop at the step of a regular checkpoint may come before its scores; the resumed process
    then scores it without any step.

    Args:
        log: The text of log.txt.
        every: Steps between two regular checkpoints.
    """
    resumed = {int(match[1]) for match in _RESUMED.finditer(log)}
    stopped = {int(match[1]) for match in _STOPPED.finditer(log)}
    return {step + -step % every for step in resumed if step % every or step in stopped}


def metric_differences(
    ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], partial: set[int]
) -> list[str]:
    """Return the differences between the records of two runs, without times and speeds.

    Args:
        ours: Records of the disturbed run.
        theirs: Records of the uninterrupted run.
        partial: Steps whose means cover only a part of the interval in ``ours``.
    """
    found = _sequence_differences(
        "steps in metrics.jsonl",
        [record.get("step") for record in ours],
        [record.get("step") for record in theirs],
    )
    if found:
        return found
    for one, other in zip(ours, theirs, strict=True):
        ignored = INTERVAL_MEANS if other["step"] in partial else frozenset()
        names = sorted(name for name in one.keys() | other.keys() if "second" not in name)
        for name in names:
            if name not in ignored and one.get(name) != other.get(name):
                found.append(
                    f"metrics.jsonl, step {other['step']}, {name}: {one.get(name)}, expected "
                    f"{other.get(name)}"
                )
    return found


def array_differences(place: str, ours: Arrays, theirs: Arrays) -> list[str]:
    """Return the names of arrays that are not bit-identical."""
    found = _sequence_differences(f"names in {place}", sorted(ours), sorted(theirs))
    for name in sorted(ours.keys() & theirs.keys()):
        one, other = ours[name], theirs[name]
        if one.dtype != other.dtype or one.shape != other.shape:
            found.append(
                f"{place}, {name}: {one.dtype} {one.shape}, expected {other.dtype} {other.shape}"
            )
        elif one.tobytes() != other.tobytes():
            found.append(f"{place}, {name}: other values")
    return found


def _sequence_differences(name: str, ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    if list(ours) == list(theirs):
        return []
    return [f"{name}: {_short(ours)}, expected {_short(theirs)}"]


def _short(values: Sequence[Any]) -> str:
    text = ", ".join(map(str, values)) or "none"
    return text if len(text) <= 200 else f"{text[:200]}..."


def checkpoint_steps(run: Path) -> list[int]:
    """Return the steps of the checkpoints of a run, oldest first."""
    return sorted(int(file.stem[5:]) for file in (run / "checkpoints").glob("step-*.index"))


def read_checkpoint(run: Path, step: int) -> dict[str, np.ndarray]:
    """Return all tensors of a checkpoint except the training time."""
    reader = tensorflow().train.load_checkpoint(str(run / "checkpoints" / f"step-{step}"))
    names = [name for name in reader.get_variable_to_shape_map() if "ATTRIBUTES" in name]
    return {name: reader.get_tensor(name) for name in names if "seconds" not in name}


def _weight_files(run: Path) -> list[str]:
    kept = [f"best/{path.name}" for path in (run / "best").glob("*.weights.h5")]
    return [path.name for path in run.glob("*.weights.h5")] + kept


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of a weights file by their path in it."""
    import h5py

    found: dict[str, np.ndarray] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(add)
    return found
