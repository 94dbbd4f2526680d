"""The model card export.json: origin, interface and scores of an exported version."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer import system
from keras_transformer.config import Config, SearchConfig
from keras_transformer.formats import EXPORT_FORMAT, FORMAT_NUMBER, check_format, versions
from keras_transformer.serving.settings import ExportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keras_transformer.data.tokenizer import Tokenizer

FILE = "export.json"
CHECKED = ("saved_model.pb", "variables/variables.index")
"""Files whose checksums are in the card."""


def write(directory: Path, card: dict[str, Any]) -> None:
    """Write the card into the version folder."""
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    # JSON reads the escapes of undecodable names.
    (directory / FILE).write_text(text, encoding="utf-8", errors="backslashreplace")


def card(
    *,
    name: str,
    version: int,
    config: Config,
    interface: dict[str, Any],
    dtype: str,
    parameters: int,
    tokenizer: Tokenizer,
    dev: dict[str, Any] | None,
    libraries: dict[str, str] | None = None,
    checksums: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the contents of export.json.

    Args:
        name: The model's name.
        version: Version number.
        config: Configuration of the run.
        interface: Signatures and search, in the terms of the format.
        dtype: Storage type of the weights.
        parameters: Number of parameters.
        tokenizer: The exported tokenizer.
        dev: Scores on the dev set, None if not measured.
        libraries: Versions of libraries that only this format uses.
        checksums: SHA-256 of files by path in the version folder, from `checksums`.
    """
    return {
        FORMAT_NUMBER: EXPORT_FORMAT,
        "name": name,
        "version": version,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "languages": {"source": config.data.source, "target": config.data.target},
        **interface,
        "dtype": dtype,
        "parameters": parameters,
        "tokenizer": {
            "fingerprint": tokenizer.fingerprint,
            "source_pieces": tokenizer.source.size,
            "target_pieces": tokenizer.target.size,
        },
        "model": dataclasses.asdict(config.model),
        "dev": dev,
        "versions": versions() | (libraries or {}),
        "sha256": checksums or {},
    }


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files of a SavedModel that say which others belong to it.

    These are the graph, and the index of the weights with their own checksums. Reading all
    weights once more would slow down the start of a server.

    Args:
        folder: A version folder.
    """
    found = {}
    for name in CHECKED:
        if (folder / name).is_file():
            found[name] = hashlib.sha256(system.read_bytes(folder / name)).hexdigest()
    return found


def read(folder: Path) -> dict[str, Any]:
    """Read the card of a version folder; a missing one is empty.

    Raises:
        FormatError: A later version of the package wrote the export.
        ExportError: The card is damaged, or does not belong to the other files.
    """
    path = folder / FILE
    try:
        values = json.loads(system.read_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ExportError(f"{path}: cannot be read: {reason}; export the run again") from None
    if not isinstance(values, dict):
        raise ExportError(f"{path}: expected a model card, got {values!r:.50}; export again")
    check_format(path, values, values.get("versions"), EXPORT_FORMAT)
    stored = values.get("sha256", {})
    for name, found in checksums(folder).items():
        if isinstance(stored, dict) and stored.get(name, found) != found:
            raise ExportError(
                f"{folder / name}: damaged, or of another export than {path}; export the run again"
            )
    return values


def saved_model_interface(
    signatures: dict[str, Any],
    definitions: Mapping[str, Any],
    search: SearchConfig,
    max_tokens: int,
) -> dict[str, Any]:
    """Describe the signatures and the search of a SavedModel.

    Args:
        signatures: Functions by name.
        definitions: Their SignatureDef in the written graph; tracing a function again for its
            outputs takes seconds.
        search: Search options.
        max_tokens: Longest source in tokens, END counted.
    """
    return {
        "signatures": {
            key: _signature(function, definitions[key]) for key, function in signatures.items()
        },
        "search": {
            "beam": search.beam,
            "alpha": search.alpha,
            "length_penalty": search.length_penalty,
            "n_best": search.n_best,
            "max_extra": search.max_extra,
            "max_factor": search.max_factor,
            "max_length": search.max_length,
            "min_length": search.min_length,
            "no_repeat_ngram": search.no_repeat_ngram,
            "allow_unknown": search.allow_unknown,
            "suppress": list(search.suppress),
            "max_tokens": max_tokens,
        },
    }


def _signature(function: Any, definition: Any) -> dict[str, Any]:
    return {
        "inputs": {spec.name: _input(spec) for spec in function.input_signature},
        "outputs": {key: _output(definition.outputs[key]) for key in sorted(definition.outputs)},
    }


def _input(spec: Any) -> dict[str, Any]:
    return {"dtype": spec.dtype.name, "shape": list(spec.shape)}


def _output(info: Any) -> dict[str, Any]:
    import tensorflow as tf

    sizes = [None if each.size < 0 else each.size for each in info.tensor_shape.dim]
    return {"dtype": tf.as_dtype(info.dtype).name, "shape": sizes}
