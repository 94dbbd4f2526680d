"""Configuration of fine-tuning: a run that starts from the weights and the tokenizer of another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from keras_transformer.config import Config, ConfigError, to_dict

FREE = ("dropout", "attention_dropout", "feed_forward_dropout", "attention")
"""Fields of ``model`` that may differ from the other run: no weight depends on them."""
TOKENIZER = ("algorithm", "vocabulary_size", "joint", "source_end")
"""Fields of ``data`` that describe the tokens, which are those of the other run."""
_SIZES = ("source_vocabulary_size", "target_vocabulary_size")  # 0: those of the tokenizer


def fine_tuning_base(source: Config, given: Mapping[str, Any]) -> Config:
    """Return the configuration that the options of fine-tuning change.

    Args:
        source: The configuration of the other run.
        given: The given options, ``{"data": {"train": ...}}``.

    Returns:
        ``source``; without its dev set if a corpus is given, to which that need not fit.
    """
    if "train" not in given.get("data", {}):
        return source
    return dataclasses.replace(source, data=dataclasses.replace(source.data, dev=""))


def fine_tuning_config(source: Config, config: Config, name: str) -> Config:
    """Check that the weights of another run fit, and fill in the sizes of its vocabulary.

    Args:
        source: The configuration of the other run.
        config: The configuration of the new run.
        name: The other run, for messages.

    Raises:
        ConfigError: Names each field that differs and may not.
    """
    sizes = {field: getattr(source.model, field) for field in _SIZES}
    new = {field: getattr(config.model, field) or size for field, size in sizes.items()}
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **new))
    fixed = [item.name for item in dataclasses.fields(source.model) if item.name not in FREE]
    different = [
        *_differences("model", fixed, source, config),
        *_differences("data", TOKENIZER, source, config),
    ]
    if different:
        raise ConfigError(
            f"{'; '.join(different)}. The weights and the vocabulary come from {name}: leave these "
            f"options out, and a preset with other values; only model.{', '.join(FREE)} may change"
        )
    return config


def _differences(section: str, names: Iterable[str], source: Config, config: Config) -> list[str]:
    before, after = to_dict(source)[section], to_dict(config)[section]
    return [
        f"{section}.{name}: expected {before[name]!r}, got {after[name]!r}"
        for name in names
        if before[name] != after[name]
    ]
