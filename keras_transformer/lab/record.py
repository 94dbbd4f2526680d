"""File ``laboratory.json`` of a folder of results: their baseline and corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.config import Config, ConfigError, from_dict
from keras_transformer.lab.jobs import Corpus, differences
from keras_transformer.lab.results import FORMAT, ResultError, Results

FILE = "laboratory.json"
_FIELDS = {"corpus": str, "name": str, "baseline": dict}
_PATHS = ("data.train", "data.dev")  # they differ between machines


def write(folder: Path, baseline: Config, corpus: Corpus) -> None:
    """Write the record of a folder without results, or compare with that of an earlier call.

    Raises:
        ResultError: The results there belong to another baseline or corpus.
        FileError: The file cannot be written.
    """
    values = _values(baseline, corpus)
    path = folder / FILE
    if not path.exists() or not len(Results(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        system.write_json(path, values)
        return
    stored = _read(path)
    if stored["corpus"] != corpus.identity:
        raise ResultError(
            f"{path}: expected the corpus {stored['name']} of the results there, got another one; "
            "choose another --results or --to"
        )
    before, now = stored["baseline"], values["baseline"]
    changed = [
        f"{name} {before.get(name, 'default')}, got {now.get(name, 'default')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise ResultError(
            f"{path}: expected the baseline of the results there: {'; '.join(changed)}; choose "
            "another --results or --to"
        )


def read(folder: Path) -> tuple[Config, Corpus]:
    """Return the baseline and the corpus of a folder of results.

    Raises:
        ResultError: There is no record, or it is damaged.
    """
    path = folder / FILE
    if not path.exists():
        raise no_results(folder)
    stored = _read(path)
    values: dict[str, dict[str, Any]] = {}
    for name, value in stored["baseline"].items():
        section, _, field = name.partition(".")
        values.setdefault(section, {})[field] = value
    try:
        return from_dict(values), Corpus(stored["name"], stored["corpus"])
    except ConfigError as error:
        raise ResultError(f"{path}: {error}") from error


def no_results(folder: Path) -> ResultError:
    """Return the error about a folder without results."""
    return ResultError(f"{folder}: expected results of a laboratory, found none yet")


def _values(baseline: Config, corpus: Corpus) -> dict[str, Any]:
    fields = differences(Config(), baseline)
    kept = {name: value for name, value in fields.items() if name not in _PATHS}
    return {
        "format": FORMAT,
        "corpus": corpus.identity,
        "name": corpus.name,
        "baseline": kept,
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = json.loads(system.read_text(path))
        if stored["format"] == FORMAT and all(
            isinstance(stored[name], kind) for name, kind in _FIELDS.items()
        ):
            return stored
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(
            f"{path}: expected the record of a laboratory's results, got {error}"
        ) from error
    raise ResultError(f"{path}: expected the record of a laboratory's results, got another file")
