"""Fingerprint of prepared data: their configuration, corpus files and tokenizer."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from keras_transformer.config import DataConfig
from keras_transformer.data.errors import ChangedDataError, DataError
from keras_transformer.data.pairs import corpus_files
from keras_transformer.data.prepared import read_json
from keras_transformer.data.tokenizer import Tokenizer

FORMAT = 2
"""Version of the files that ``prepare`` writes."""

Fingerprint = dict[str, Any]
"""``format``, ``data`` (fields of the configuration), ``files`` (size, time, hash by path)."""


def fingerprint(config: DataConfig, dev: str) -> Fingerprint:
    """Return the fingerprint of a configuration and its corpus files, without their hashes.

    Args:
        config: The configuration.
        dev: The spec of the held-out pairs.
    """
    data = dataclasses.asdict(config)
    del data["on_long"]  # affects translation only
    files: dict[str, dict[str, Any]] = {}
    for spec in (config.train, dev):
        for path in corpus_files(spec, config.source, config.target):
            status = path.stat()
            files[str(path)] = {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}
    return {"format": FORMAT, "data": data, "files": files}


def add_hashes(values: Fingerprint) -> None:
    """Add the SHA-256 of each corpus file to a fingerprint."""
    for path, state in values["files"].items():
        state["sha256"] = _sha256(Path(path))


def check_same(current: Fingerprint, path: Path, tokenizer: Tokenizer | None) -> None:
    """Refuse data that were prepared from another configuration, corpus or tokenizer.

    Accepted are a corpus file that no longer exists, since its encoded pairs are complete, and a
    file of the same content with another modification time, such as a copy.

    Args:
        current: The fingerprint of the present configuration.
        path: The file of the stored fingerprint.
        tokenizer: The tokenizer that the data must be encoded with; None accepts any.

    Raises:
        ChangedDataError: The fingerprints differ.
        DataError: The stored one cannot be read.
    """
    stored = read_json(path)
    number = stored.get("format", 1)
    if number != FORMAT:
        raise ChangedDataError(
            f"{path}: expected format {FORMAT}, got {number}, of another version"
        )
    differences = []
    fields, files = stored.get("data"), stored.get("files")
    if not isinstance(fields, dict) or not isinstance(files, dict):
        raise DataError(f"{path}: expected the sections data and files, found other ones")
    defaults = dataclasses.asdict(DataConfig())  # of fields that an earlier version did not have
    for name, value in current["data"].items():
        before = fields.get(name, defaults[name])
        if before != value:
            differences.append(f"data.{name} {before!r}, got {value!r}")
    for file, state in current["files"].items():
        before = files.get(file)
        if before is None or not _is_unchanged(Path(file), before, state):
            differences.append(f"{file} unchanged, got a file of other content")
    if tokenizer is not None and stored.get("tokenizer") != tokenizer.fingerprint:
        differences.append("the same tokenizer, got another one")
    if differences:
        raise ChangedDataError(
            f"{path.parent} was prepared before: expected {'; '.join(differences)}"
        )


def _is_unchanged(path: Path, before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether a file has the same content; read it only if its time differs."""
    if not isinstance(before, dict) or before.get("bytes") != now["bytes"]:
        return False
    return before.get("modified_ns") == now["modified_ns"] or before.get("sha256") == _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
