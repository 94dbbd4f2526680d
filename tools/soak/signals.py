"""Training that a signal stops and a later process resumes."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path
from typing import Any

from tools.soak import moments
from tools.soak.comparison import check_same_run, checkpoint_steps
from tools.soak.processes import Process
from tools.soak.runs import EVERY, Runs
from tools.soak.training import finish, wait_for
from tools.soak.trials import Trial, TrialError

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
GRACE = 60.0
"""Seconds in which a stopped process has to end."""

_KINDS = ("device", "device", "workers", "replicas", "stopping")
_EVENTS = ("time", "time", "checkpoint", "best", "average")
_TRIES = 5


def stopped(trial: Trial, runs: Runs) -> dict[str, Any]:
    """Send a signal to a run at a random moment, resume it and compare it.

    Raises:
        TrialError: Another exit status than that of the signal, a lost step, or other results.
    """
    rng, number = trial.random(), signal.Signals[trial.kind]
    kind = rng.choice(_KINDS)
    reference = runs.reference(kind)
    run = runs.folder / "trials" / trial.name
    for _ in range(_TRIES):
        shutil.rmtree(run, ignore_errors=True)
        moment = moments.draw(rng, rng.choice(_EVENTS))
        fired = wait_for(moment, run, reference)
        process = Process("train", runs.words(kind, run))
        if process.wait_until(fired) and process.wait_until(moments.after(moment.delay)):
            break
        process.wait()
    else:
        raise TrialError(f"the run ended {_TRIES} times before the signal")
    process.send(number)
    status = process.wait(GRACE)
    ended = "done: " in log_of(run)  # the signal came while the process was about to exit
    if status != 128 + number and not (ended and status == 0):
        raise TrialError(
            f"{kind}, {moment}: expected status {128 + number}, got {status}\n{process.log[-1500:]}"
        )
    saved = max(checkpoint_steps(run), default=0)
    taken = last_step(log_of(run))
    if taken > saved:
        raise TrialError(f"{kind}, {moment}: {taken} steps were taken, saved at step {saved}")
    finish(runs, kind, run)
    check_same_run(run, reference.path, EVERY)
    shutil.rmtree(run)
    return {"run": kind, "moment": str(moment), "saved": saved}


def log_of(run: Path) -> str:
    """Return the text of log.txt, empty if there is none."""
    file = run / "log.txt"
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def last_step(log: str) -> int:
    """Return the last step that log.txt reports, 0 if none."""
    return max((int(step) for step in re.findall(r" step (\d+)/", log)), default=0)
