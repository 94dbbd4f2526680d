"""Exports that are killed at random moments and repeated."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.serving.version_folder import version_number
from tools.soak import moments
from tools.soak.comparison import raise_differences
from tools.soak.moments import Moment
from tools.soak.processes import Process, complete
from tools.soak.runs import Runs
from tools.soak.saved_model import translate
from tools.soak.trials import Trial, TrialError

SENTENCES = ("a b c", "h", "d d e", "f a c e", "b a", "", "g h g h a")

MODEL = "exports"
"""Name of the model, which is that of its folder."""

_lock = threading.Lock()


def killed(trial: Trial, runs: Runs) -> dict[str, Any]:
    """Kill an export several times, let it end, and compare the version with a reference.

    Raises:
        TrialError: A half version is visible, or files or translations differ.
    """
    rng, reference = trial.random(), reference_export(runs)
    run = runs.reference("device").path
    place = runs.folder / "trials" / trial.name
    shutil.rmtree(place, ignore_errors=True)
    folder = place / MODEL  # the warm-up requests hold the folder's name
    expected = json.loads(reference.read_text(encoding="utf-8"))
    done: list[str] = []
    waiting = [moments.draw(rng, rng.choice(("time", "export"))) for _ in range(trial.count)]
    while waiting:
        if _kill_at(waiting[0], export_words(run, folder), folder, expected["seconds"]):
            done.append(str(waiting.pop(0)))
        else:
            waiting[0] = moments.earlier(waiting[0], rng)
        check_versions(folder, expected["files"])
    complete("export", export_words(run, folder))
    versions = check_versions(folder, expected["files"])
    for path in versions:
        if translate(path, SENTENCES) != expected["translations"]:
            raise TrialError(f"version {path.name}: other translations than the reference")
    left = [path.name for path in folder.iterdir() if path not in versions]
    raise_differences([f"left behind: {name}" for name in left])
    shutil.rmtree(place)
    return {"kills": done, "versions": len(versions)}


def export_words(run: Path, folder: Path) -> list[str]:
    """Return the options of an export of a run."""
    return ["--run", str(run), "--to", str(folder)]


def _kill_at(moment: Moment, words: list[str], folder: Path, seconds: float) -> bool:
    """Start an export and kill it; return false if it has ended before."""
    numbers = [int(path.name) for path in versions_of(folder)]
    if moment.event == "time":
        fired = moments.after(moment.share * seconds)
    else:
        fired = moments.preparation(moment, folder / str(max(numbers, default=0) + 1))
    process = Process("export", words)
    if process.wait_until(fired) and process.wait_until(moments.after(moment.delay)):
        process.kill()
        return True
    if process.wait():
        raise TrialError(f"before {moment}: the export failed\n{process.log[-1500:]}")
    return False


def versions_of(folder: Path) -> list[Path]:
    """Return the version folders that a server sees."""
    if not folder.exists():
        return []
    return [path for path in folder.iterdir() if version_number(path.name) is not None]


def check_versions(folder: Path, expected: dict[str, str | None]) -> list[Path]:
    """Check that all visible versions are complete; return them.

    Args:
        folder: Folder of the versions.
        expected: Hash of each file of a version, None where exports differ.

    Raises:
        TrialError: A version lacks a file, or has another one.
    """
    found = versions_of(folder)
    for path in found:
        files = hashes(path)
        differences = [
            f"version {path.name}, {name}: "
            + (
                "missing"
                if name not in files
                else "unexpected"
                if name not in expected
                else "other"
            )
            for name in sorted(files.keys() | expected.keys())
            if name not in files
            or name not in expected
            or expected[name] not in (None, files[name])
        ]
        raise_differences(differences)
    return found


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of all files in a folder by their path in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def reference_export(runs: Runs) -> Path:
    """Export the reference twice, if that is not done; return the file of the expected values.

    It holds the hash of each file, None for those that differ between two exports, the
    translations and the duration.

    Raises:
        TrialError: An export failed, or the translations of the two differ.
    """
    folder, file = runs.folder / "reference" / MODEL, runs.folder / "reference" / "export.json"
    run = runs.reference("device").path
    with _lock:
        if not file.exists():
            shutil.rmtree(folder, ignore_errors=True)
            first = complete("export", export_words(run, folder))
            complete("export", export_words(run, folder))
            one, other = (hashes(folder / name) for name in ("1", "2"))
            raise_differences([f"files: {name}" for name in sorted(one.keys() ^ other.keys())])
            translations = [translate(folder / name, SENTENCES) for name in ("1", "2")]
            if translations[0] != translations[1]:
                raise TrialError("two exports of one run translate differently")
            files = {name: value if value == other[name] else None for name, value in one.items()}
            values = {
                "files": files,
                "translations": translations[0],
                "seconds": round(first.seconds, 1),
            }
            system.write_json(file, values)
    return file
