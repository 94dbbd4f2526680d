"""Runner of a laboratory: each training and each measurement is a separate process."""

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
from keras_transformer.training import bad_batch

STOP_TIMEOUT = 60.0
"""Seconds in which a stopped process may save its state before it is killed."""
TRAINED = "trained.json"
"""File in a run folder whose training has finished or diverged."""
MEASURED = "measured.json"
"""File in a run folder with its measurements, until they are in the results."""
LARGE_FOLDERS = ("checkpoints", "best")
"""Folders of a run that no later job needs."""

Log = Callable[[str], None]


class ProcessError(UserError):
    """A training or measurement that ended without a result."""


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
        """Run all jobs that have no result yet.

        A job that fails leaves no result; the others continue.

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
            except ProcessError as error:
                self.log(f"{error}; the next call tries it again")
                failed += [job.name for job in group]
            else:
                self.log(f"[{number}/{len(groups)}] done in {time.monotonic() - start:.0f} s")
        return failed

    def _measurable(self, job: Job) -> bool:
        """Return whether to measure a job again: its checkpoints still exist."""
        folders = (self.folder / "runs").glob(f"*-{job.training_key}")
        return self.measure_again and any((path / "checkpoints").exists() for path in folders)

    def _finish(self, group: Sequence[Job]) -> None:
        """Train the run of a group unless it is trained, measure it and write the results."""
        path = self._train(group[0])
        shared, scores = self._measure(path, group)
        for job in group:
            own = shared if not job.searches_only else _without_curves(shared)
            values = {**own, "final": scores.get(job.key), "corpus": self.corpus.name}
            self.results.add(job, values)
            self.log(f"    {job.name}: {describe_result(values)}")
        if self.clean:
            for name in LARGE_FOLDERS:
                with contextlib.suppress(FileNotFoundError):
                    system.remove(path / name)

    def _train(self, job: Job) -> Path:
        """Train the run of a job, or resume it; return its folder."""
        runs = self.folder / "runs"
        # Another job with the same training may have named the folder: look for the key.
        existing = sorted(runs.glob(f"*-{job.training_key}/{CONFIG}"))
        path = existing[0].parent if existing else runs / f"{job.name}-{job.training_key}"
        if not existing:
            Run.create(path, job.config, self.log, prepared_in=self._prepare(job))
        if (path / TRAINED).exists():
            return path
        arguments = ["keras_transformer.train", "--resume", "--run", str(path)]
        status = (
            0 if (path / bad_batch.FILE).exists() else _run_module(arguments, path / "output.txt")
        )
        if status and not (path / bad_batch.FILE).exists():
            raise ProcessError(f"{path}: training ended with status {status}: see output.txt there")
        system.write_json(path / TRAINED, {"status": status})
        return path

    def _prepare(self, job: Job) -> Path:
        """Return a run folder with the data of a job, prepared once for all runs."""
        path = self.folder / "data" / data_key(job.config, self.corpus)
        if not (path / CONFIG).exists():
            Run.create(path, job.config, self.log)
        return path

    def _measure(self, path: Path, group: Sequence[Job]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measure a trained run; return its statistics, and the scores of each job by key."""
        searches = {job.key: to_dict(job.config)["search"] for job in group}
        output = path / MEASURED  # a kill leaves it; the next call replaces it
        arguments = ["keras_transformer.lab.measure", str(path), str(output), json.dumps(searches)]
        if all(job.searches_only for job in group):
            arguments.append("--search_only")
        status = _run_module(arguments, path / "output.txt")
        if status:
            raise ProcessError(
                f"{path}: measuring ended with status {status}: see output.txt there"
            )
        values = json.loads(system.read_text(output))
        output.unlink()
        return values["run"], values["scores"]


def describe_result(values: dict[str, Any]) -> str:
    """Return the outcome, BLEU and loss of a result as text."""
    final, step = values["final"], values["diverged_at"]
    texts = [values["outcome"] + (f" at step {step}" if step is not None else "")]
    if final:
        texts.append(f"BLEU {final['bleu']:.1f}, loss {final['nll_per_token']:.2f} a token")
    return ", ".join(texts)


def _without_curves(values: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics of a run without its curves, which another result has."""
    return {name: value for name, value in values.items() if not isinstance(value, list)}


def _run_module(arguments: Sequence[str], output: Path) -> int:
    """Run a module with its output appended to a file, and return its exit status.

    If this process is stopped, the module gets SIGTERM and time to save its state. On Linux it
    gets SIGTERM too when this process is killed.
    """
    with output.open("ab") as log, _stopped_with_parent() as processes:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
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
    """Stop the processes that are still running at the end of the block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_TIMEOUT)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
