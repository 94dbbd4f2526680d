"""Results of runs: one JSON file each, from which reports are made."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.errors import UserError
from keras_transformer.lab.jobs import KEY_LENGTH, Job

FORMAT = 1
"""Version of the file format; other versions are refused."""

_REQUIRED = {"name": str, "key": str, "variant": str, "seed": int, "overrides": dict}
_OPTIONAL = {
    "outcome": str,
    "final": dict,
    "curve": list,
    "train_curve": list,
    "measurements": list,
}
_WAY_OUT = "remove the file, and the next call makes the result again"

Result = dict[str, Any]
"""Contents of a file; see `docs/lab.md`."""


class ResultError(UserError):
    """A result that cannot be read."""


class Results:
    """The results in a folder, by key.

    Args:
        folder: Created with the first result.

    Raises:
        ResultError: A file is damaged, or from another version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[str, Result] = {}
        for path in sorted(folder.glob(f"*-{'?' * KEY_LENGTH}.json")):
            result = _read(path)
            self._found[result["key"]] = result

    def __contains__(self, job: Job) -> bool:
        return job.key in self._found

    def __len__(self) -> int:
        return len(self._found)

    def of_variant(self, key: str) -> list[Result]:
        """Return the results of all seeds of a variant, by seed."""
        found = [result for result in self._found.values() if result["variant"] == key]
        return sorted(found, key=lambda result: result["seed"])

    def add(self, job: Job, values: Result) -> Path:
        """Write the result of a job.

        Args:
            job: The job, whose name and key become those of the file.
            values: The other fields; NaN and infinity become null.

        Raises:
            FileError: The file cannot be written.
        """
        result: Result = {
            "format": FORMAT,
            "name": job.name,
            "key": job.key,
            "variant": job.variant_key,
            "training": job.training_key,
            "seed": job.seed,
            "overrides": job.overrides,
            **values,
        }
        result = finite(result)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{job.name}-{job.key}.json"
        system.write_text(path, _text(result))
        self._found[job.key] = result
        return path


def _text(result: Result) -> str:
    """Return JSON with one line for each field and for each point of a curve."""
    entries = []
    for name, value in result.items():
        if isinstance(value, list) and value:
            points = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in value)
            text = f"[\n  {points}\n ]"
        else:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        entries.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(entries) + "\n}\n"


def finite(value: Any) -> Any:
    """Return a value for JSON: numbers with six digits, NaN and infinity as None."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _read(path: Path) -> Result:
    try:
        result = json.loads(system.read_text(path))
    except (OSError, ValueError) as error:
        raise ResultError(
            f"{path}: expected the result of a run, got {error}; {_WAY_OUT}"
        ) from error
    if not isinstance(result, dict) or not _is_result(result):
        raise ResultError(f"{path}: expected the result of a run, got other JSON; {_WAY_OUT}")
    if result.get("format") != FORMAT:
        raise ResultError(
            f"{path}: expected format {FORMAT}, got {result.get('format')!r} of another version"
        )
    return result


def _is_result(values: dict[str, Any]) -> bool:
    """Return whether JSON has the parts of a result, as far as their types show."""
    present = {name: kind for name, kind in _OPTIONAL.items() if values.get(name) is not None}
    kinds = {**_REQUIRED, **present}
    if not all(isinstance(values.get(name), kind) for name, kind in kinds.items()):
        return False
    lists = [values[name] for name, kind in present.items() if kind is list]
    return all(isinstance(each, dict) for points in lists for each in points)
