"""Training that is killed at random moments and resumed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from tools.soak import moments
from tools.soak.comparison import check_same_run, checkpoint_steps
from tools.soak.moments import Moment
from tools.soak.processes import Process, members
from tools.soak.runs import EVERY, Reference, Runs
from tools.soak.trials import Trial, TrialError

VICTIMS = ("all", "all", "launcher", "worker")
"""Processes of a run with several workers that a kill ends."""


def killed(trial: Trial, runs: Runs) -> dict[str, Any]:
    """Kill a run, resume it as often as it takes, and compare it with the reference.

    A run that ends before its kill is compared too, and the remaining kills go to a new one.

    Raises:
        TrialError: A run differs from the reference, or cannot be resumed.
    """
    rng, reference = trial.random(), runs.reference(trial.kind)
    run = runs.folder / "trials" / trial.name
    shutil.rmtree(run, ignore_errors=True)
    shutil.rmtree(moments.partial_folder(run), ignore_errors=True)
    done: list[str] = []
    waiting = moments.draw_training(rng, trial.count, trial.index)
    missed = 0
    while waiting:
        victim = rng.choice(VICTIMS) if trial.kind == "workers" else "all"
        if killed_at(waiting[0], runs, trial.kind, run, reference, victim, rng):
            done.append(f"{waiting.pop(0)}{'' if victim == 'all' else f' ({victim})'}")
            continue
        check_same_run(run, reference.path, EVERY)
        shutil.rmtree(run)
        waiting[0] = moments.earlier(waiting[0], rng)
        missed += 1
        if missed > 3 * trial.count:
            raise TrialError(f"the run ended {missed} times before the moment {waiting[0]}")
    finish(runs, trial.kind, run)
    check_same_run(run, reference.path, EVERY)
    shutil.rmtree(run)
    return {"kills": done}


def killed_at(
    moment: Moment,
    runs: Runs,
    kind: str,
    run: Path,
    reference: Reference,
    victim: str,
    rng: random.Random,
) -> bool:
    """Start or resume a run and kill it; return false if it has ended before.

    Raises:
        TrialError: It fails before the kill, or a process of it stays.
    """
    fired = wait_for(moment, run, reference)
    process = Process("train", runs.words(kind, run))
    if not process.wait_until(fired) or not process.wait_until(moments.after(moment.delay)):
        status = process.wait()
        if status:
            raise TrialError(f"before {moment}: status {status}\n{process.log[-1500:]}")
        return False
    if victim == "all":
        process.kill()
        return True
    others = [pid for pid in members(process.mark) if pid != process.pid]
    process.kill([process.pid] if victim == "launcher" or not others else [rng.choice(others)])
    process.wait(120)  # the others notice it
    return True


def wait_for(moment: Moment, run: Path, reference: Reference) -> moments.Fired:
    """Return whether the moment has come, in a process that starts now."""
    if moment.event == "time":
        last = max(checkpoint_steps(run), default=0)
        return moments.after(moment.share * reference.left(last))
    return moments.event(moment, run, reference.final_step)


def finish(runs: Runs, kind: str, run: Path) -> None:
    """Resume a run and let it end.

    Raises:
        TrialError: It fails.
    """
    process = Process("train", runs.words(kind, run))
    status = process.wait()
    if status:
        raise TrialError(f"resuming ended with status {status}\n{process.log[-1500:]}")
