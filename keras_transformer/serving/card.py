"""The model card export.json: origin, interface and scores of an exported version."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

from keras_transformer.config import Config, SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.run import versions

FILE = "export.json"


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
    """
    return {
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
    }


def saved_model_interface(
    signatures: dict[str, Any], search: SearchConfig, max_tokens: int
) -> dict[str, Any]:
    """Describe the signatures and the search of a SavedModel.

    Args:
        signatures: Traced functions by name.
        search: Search options.
        max_tokens: Longest source in tokens, END counted.
    """
    return {
        "signatures": {key: _signature(function) for key, function in signatures.items()},
        "search": {
            "beam": search.beam,
            "alpha": search.alpha,
            "length_penalty": search.length_penalty,
            "n_best": search.n_best,
            "max_extra": search.max_extra,
            "min_length": search.min_length,
            "no_repeat_ngram": search.no_repeat_ngram,
            "max_tokens": max_tokens,
        },
    }


def _signature(function: Any) -> dict[str, Any]:
    traced = function.get_concrete_function()
    outputs = traced.structured_outputs
    return {
        "inputs": {spec.name: _tensor(spec) for spec in function.input_signature},
        "outputs": {key: _tensor(outputs[key]) for key in sorted(outputs)},
    }


def _tensor(spec: Any) -> dict[str, Any]:
    return {"dtype": spec.dtype.name, "shape": list(spec.shape)}
