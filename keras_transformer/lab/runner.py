"""Execution of a laboratory: each training and measurement in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.config import to_dict
from keras_transformer.errors import UserError
from keras_transformer.lab.jobs import Corpus, Job, by_training, data_key
from keras_transformer.lab.results import Results
from keras_transformer.run import CONFIG, Run
from keras_transformer.stop_signals import end_with_parent

GRACE = 60.0
"""Seconds that a stopped training has to save, before it is killed."""
BAD_BATCH = "bad_batch.json"
"""File of a run whose loss or gradient is not finite, with the step."""
TRAINED = "trained.json"
"""File of a run that is trained, or has diverged."""
MEASURED = "measured.json"
"""File of a run with its measurements, until they are in the results."""
BULKY = ("checkpoints", "best")
"""Parts of a run folder that no later job needs."""

Log = Callable[[str], None]


class Failure(UserError):
    """A process of the laboratory that ended without a result."""


@dataclasses.dataclass(frozen=True)
class Laboratory:
    """The folder of a laboratory and its results.

    Args:
        folder: Has ``runs/`` and ``data/``, the prepared data that runs share.
        results: The finished jobs.
        corpus: The corpus of all jobs.
        log: Called with each progress line.
        clean: Remove checkpoints and kept weights of a run after its measurements.
        measure_again: Replace the results of runs whose checkpoints are still there.
    """

    folder: Path
    results: Results
    corpus: Corpus
    log: Log
    clean: bool = False
    measure_again: bool = False

    def run(self, jobs: Sequence[Job]) -> list[str]:
        """Finish all jobs that have no result yet.

        A job that fails leaves no result, and the others go on.

        Returns:
            The names of the jobs that failed.

        Raises:
            UserError: The corpus or the folder cannot be used.
        """
        open_jobs = [job for job in jobs if job not in self.results or self._measurable(job)]
        self.log(f"{len(jobs)} results wanted, {len(jobs) - len(open_jobs)} of them are there")
        failed = []
        groups = by_training(open_jobs)
        for number, group in enumerate(groups, start=1):
            names = ", ".join(job.name for job in group[:3]) + ", …" * (len(group) > 3)
            self.log(f"[{number}/{len(groups)}] {names}")
            start = time.monotonic()
            try:
                self._finish(group)
            except Failure as error:
                self.log(f"{error}; the next call tries it again")
                failed += [job.name for job in group]
            else:
                self.log(f"[{number}/{len(groups)}] done in {time.monotonic() - start:.0f} s")
        return failed

    def _measurable(self, job: Job) -> bool:
        folders = (self.folder / "runs").glob(f"*-{job.training}")
        return self.measure_again and any((path / "checkpoints").exists() for path in folders)

    def _finish(self, group: Sequence[Job]) -> None:
        """Train the run of a group unless it is trained, measure it and write the results."""
        path = self._trained(group[0])
        shared, finals = self._measured(path, group)
        for job in group:
            own = shared if not job.searches_only else _without_curves(shared)
            values = {**own, "final": finals.get(job.key), "corpus": self.corpus.name}
            self.results.add(job, values)
            self.log(f"    {job.name}: {summary(values)}")
        if self.clean:
            for name in BULKY:
                with contextlib.suppress(FileNotFoundError):
                    system.remove(path / name)

    def _trained(self, job: Job) -> Path:
        """Train the run of a job, or resume it; return its folder."""
        runs = self.folder / "runs"
        # The name is that of the first job with this training; the key finds it again.
        existing = sorted(runs.glob(f"*-{job.training}/{CONFIG}"))
        path = existing[0].parent if existing else runs / f"{job.name}-{job.training}"
        if not existing:
            Run.create(path, job.config, self.log, prepared_in=self._prepared(job))
        if (path / TRAINED).exists():
            return path
        words = ["keras_transformer.train", "--resume", "--run", str(path)]
        diverged = (path / BAD_BATCH).exists()
        status = 0 if diverged else _call(words, path / "output.txt")
        if status and not (path / BAD_BATCH).exists():
            raise Failure(f"{path}: training ended with status {status}: see output.txt there")
        system.write_json(path / TRAINED, {"status": status})
        return path

    def _prepared(self, job: Job) -> Path:
        """Return a run folder with the data of a job, prepared once for all runs."""
        path = self.folder / "data" / data_key(job.config, self.corpus)
        if not (path / CONFIG).exists():
            Run.create(path, job.config, self.log)
        return path

    def _measured(self, path: Path, group: Sequence[Job]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measure a trained run; return values of the run, and of the search of each job."""
        searches = {job.key: to_dict(job.config)["search"] for job in group}
        output = path / MEASURED  # a kill leaves it; the next call replaces it
        words = ["keras_transformer.lab.measure", str(path), str(output), json.dumps(searches)]
        if all(job.searches_only for job in group):
            words.append("--search_only")
        status = _call(words, path / "output.txt")
        if status:
            raise Failure(f"{path}: measuring ended with status {status}: see output.txt there")
        values = json.loads(system.read_text(output))
        output.unlink()
        return values["run"], values["finals"]


def summary(values: dict[str, Any]) -> str:
    """Return the outcome of a result in a few words."""
    final, step = values["final"], values["diverged_at"]
    words = [values["outcome"] + (f" at step {step}" if step is not None else "")]
    if final:
        words.append(f"BLEU {final['bleu']:.1f}, loss {final['nll_per_token']:.2f} a token")
    return ", ".join(words)


def _without_curves(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a run for another search: its curves stand in another result."""
    return {name: value for name, value in values.items() if not isinstance(value, list)}


def _call(words: Sequence[str], output: Path) -> int:
    """Run a module; its messages go to ``output`` too. Return its status.

    A stop signal to this process is passed on, and the module has time to save. On Linux it is
    stopped too when this process is killed.
    """
    with output.open("ab") as log, _stopped_with_parent() as processes:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the laboratory, which passes it on
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        processes.append(process)
        return process.wait()


@contextlib.contextmanager
def _stopped_with_parent() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Stop the processes of a block if it ends early."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
