"""Endurance test: ``python -m tools.soak --folder DIR``.

Kills, stops and limits runs at random moments, resumes them and compares the results bit by bit
with those of uninterrupted runs; loads the server while its versions change. Each finished trial is
a line of DIR/trials.jsonl, and a second call goes on after the last one. Needs Linux.

  python -m tools.soak --folder runs/soak
  python -m tools.soak --folder runs/soak --only training signals --trials 20
  python -m tools.soak --folder runs/soak --trial training-workers-2     # repeats one trial

Exit status: 0 all trials passed, 1 one failed, 2 a wrong option.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.system import core_count
from tools.soak import exports, limits, server, signals, training, translation
from tools.soak.processes import kill_all
from tools.soak.report import report, save, table
from tools.soak.runs import KINDS, Runs
from tools.soak.trials import Result, Trial, TrialLog, chains, repeated, run_all

SECTIONS = ("training", "signals", "limits", "translation", "server")


def plan(options: argparse.Namespace) -> list[Trial]:
    """Return all trials, in the order of their sections."""
    kills, seed = options.trials, options.seed
    tenth = max(1, round(kills / 10))
    trials = {
        "training": chains("training", [*KINDS, "export"], kills, seed),
        "signals": repeated("signals", signals.SIGNALS, tenth, seed),
        "limits": repeated("limits", limits.LIMITS, max(1, round(kills / 20)), seed),
        "translation": [Trial("translation", f"{options.lines} lines", 1, tenth, seed)],
        "server": [Trial("server", "load", 1, max(1, round(60 * options.minutes)), seed)],
    }
    return [trial for section in SECTIONS if section in options.only for trial in trials[section]]


def run(trial: Trial, runs: Runs, lines: int) -> dict[str, Any]:
    """Run a trial; return its details.

    Raises:
        TrialError: It failed.
    """
    if trial.section == "translation":
        return translation.killed(trial, runs, lines)
    if trial.section == "server":
        return server.loaded(trial, runs)
    if trial.section == "training":
        return (exports if trial.kind == "export" else training).killed(trial, runs)
    return (signals.stopped if trial.section == "signals" else limits.limited)(trial, runs)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="python -m tools.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = result.add_argument
    add("--folder", type=Path, required=True, metavar="DIR", help="folder of all files")
    add("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="only these sections")
    add(
        "--trials",
        type=_number(int),
        default=100,
        metavar="N",
        help="kills of training and export; a tenth of it are the signals of each kind and the "
        "kills of the translation, a twentieth the limits of each kind (%(default)s)",
    )
    add("--minutes", type=_number(float), default=10.0, help="of load (%(default)s)")
    add("--lines", type=_number(int), default=20_000, help="to translate (%(default)s)")
    add("--seed", type=int, default=1, help="of all random moments (%(default)s)")
    add("--jobs", type=_number(int), default=0, help="trials at the same time; default: 2")
    add("--trial", metavar="NAME", help="repeat this trial alone")
    add("--results", type=Path, metavar="FILE", help="write soak.json here too")
    return result


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise ValueError
        return value

    read.__name__ = "number above 0"  # for argparse's message
    return read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; return the exit status."""
    options = parser().parse_args(arguments)
    if sys.platform != "linux":
        print("expected Linux, whose /proc lists the processes", file=sys.stderr)
        return 2
    started = time.monotonic()
    options.folder.mkdir(parents=True, exist_ok=True)
    runs, log = Runs(options.folder.resolve()), TrialLog(options.folder / "trials.jsonl")
    trials = plan(options)
    if options.trial is not None:
        trials = [trial for trial in trials if trial.name == options.trial]
        if not trials:
            print(f"--trial: there is no trial {options.trial}", file=sys.stderr)
            return 2
        log = TrialLog(options.folder / f"{options.trial}-{time.time_ns()}.jsonl")
    _pass_signals_on()
    alone = [trial for trial in trials if trial.section == "server"]  # its latency is measured
    together = [trial for trial in trials if trial.section != "server"]
    jobs = options.jobs or min(2, core_count())
    try:
        results: list[Result] = []
        for group, size in ((together, jobs), (alone, 1)):
            results += run_all(
                group, lambda trial: run(trial, runs, options.lines), log, size, _print
            )
    except KeyboardInterrupt:
        log.close()
        kill_all()
        print("interrupted; the same command goes on", file=sys.stderr, flush=True)
        os._exit(130)  # threads still wait for the killed processes
    values = report(results, options.seed, time.monotonic() - started)
    if options.trial is None:
        for path in (options.folder / "soak.json", *filter(None, [options.results])):
            save(values, path)
    print(table(values))
    return 0 if values["passed"] else 1


def _pass_signals_on() -> None:
    """Let processes start with default handlers, and end all of them when this one is stopped.

    A shell starts background commands with SIGINT ignored, and nohup with SIGHUP; both would be
    inherited. A handler is not.
    """
    for name in ("SIGINT", "SIGHUP"):
        number = signal.Signals[name]
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _print(result: Result) -> None:
    outcome = f"FAILED: {result.failure}" if result.failure else "passed"
    print(f"{result.name}  {result.seconds:.0f} s  {outcome}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
