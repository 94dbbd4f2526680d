"""Training on a full disk and without enough memory, resumed when there is room again."""

from __future__ import annotations

import random
import resource
import shutil
from pathlib import Path
from typing import Any

from tools.soak.comparison import check_same_run
from tools.soak.processes import Process, resident
from tools.soak.runs import EVERY, Reference, Runs
from tools.soak.training import finish
from tools.soak.trials import Trial, TrialError

LIMITS = ("disk", "memory")

_SMALLEST = 4096  # a smaller file limit hits only the log of the imports
_TRIES = 5


def limited(trial: Trial, runs: Runs) -> dict[str, Any]:
    """Let a run meet a random limit, resume it without the limit and compare it.

    Raises:
        TrialError: No clear error, or other results than those of the reference.
    """
    rng, reference = trial.random(), runs.reference("device")
    run = runs.folder / "trials" / trial.name
    meet = _full_disk if trial.kind == "disk" else _no_memory
    for _ in range(_TRIES):
        shutil.rmtree(run, ignore_errors=True)
        details = meet(rng, runs, run, reference)
        if details is not None:
            break
    else:
        raise TrialError(f"the run ended {_TRIES} times below the limit")
    finish(runs, "device", run)
    check_same_run(run, reference.path, EVERY)
    shutil.rmtree(run)
    return details


def _full_disk(
    rng: random.Random, runs: Runs, run: Path, reference: Reference
) -> dict[str, Any] | None:
    """Limit the size of files below that of a checkpoint."""
    sizes = [path.stat().st_size for path in (reference.path / "checkpoints").iterdir()]
    limit = rng.randint(_SMALLEST, max(sizes) - 1)
    prepared = rng.random() < 0.8  # else the limit meets the tokenizer, the largest file
    process = Process("train", runs.words("device", run))
    if prepared and not process.wait_until(run.exists):
        raise TrialError(f"no run folder: status {process.wait()}\n{process.log[-1500:]}")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    status = process.wait()
    message = clear_error(process.log)
    if status != 2 or message is None:
        raise TrialError(
            f"files of at most {limit} bytes: expected status 2 and an error, got {status}\n"
            f"{process.log[-1500:]}"
        )
    return {"limit": limit, "message": message}


def clear_error(log: str) -> str | None:
    """Return the error message of a command, None for a stack trace or no message."""
    lines = [line for line in log.splitlines() if ": error: " in line]
    return None if "Traceback" in log or len(lines) != 1 else lines[0].partition(": error: ")[2]


def _no_memory(
    rng: random.Random, runs: Runs, run: Path, reference: Reference
) -> dict[str, Any] | None:
    """Kill the process when its memory passes a threshold, as the kernel does."""
    limit = int(reference.peak * rng.uniform(0.2, 0.97))
    process = Process("train", runs.words("device", run))
    if not process.wait_until(lambda: resident(process.pid) > limit):
        process.wait()
        return None
    process.kill()
    return {"limit": limit}
