"""The model card: what an export is and where it comes from, for people and programs."""

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
    """Put the card beside the model."""
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    (directory / FILE).write_text(text, encoding="utf-8")


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
) -> dict[str, Any]:
    """All that is said about an export.

    Args:
        name: The model's name.
        version: Number of the version.
        config: The configuration of the run.
        interface: How to call it and how it searches, which each format says in its own way.
        dtype: How weights are stored.
        parameters: How many the network has.
        tokenizer: The tokenizer inside.
        dev: Scores on the dev set, None where they were not measured.
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
        "versions": versions(),
    }


def of_signatures(
    signatures: dict[str, Any], search: SearchConfig, max_tokens: int
) -> dict[str, Any]:
    """The interface of a SavedModel.

    Args:
        signatures: The traced functions by name.
        search: How it translates.
        max_tokens: Longest source.
    """
    return {
        "signatures": {key: _signature(function) for key, function in signatures.items()},
        "search": {
            "beam": search.beam,
            "alpha": search.alpha,
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
