"""The configuration of a run: frozen dataclasses, one per section.

The docstring below a field is its documentation in ``--help``. Building an object with an invalid
value raises an error with the field, the valid values and the value received.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from keras_transformer.config.data import DataConfig
from keras_transformer.config.model import ModelConfig
from keras_transformer.config.search import LengthPenalty, SearchConfig
from keras_transformer.config.train import RESUMABLE, Precision, TrainConfig
from keras_transformer.field_types import format_value
from keras_transformer.validation import ConfigError, require

__all__ = [
    "RESUMABLE",
    "SECTIONS",
    "Config",
    "ConfigError",
    "DataConfig",
    "LengthPenalty",
    "ModelConfig",
    "Precision",
    "SearchConfig",
    "TrainConfig",
    "from_dict",
    "to_dict",
]


@dataclass(frozen=True)
class Config:
    """Configuration of a run: model, data, training and search."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    data: DataConfig = field(default_factory=DataConfig)
    """The parallel text."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """The optimisation."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The search."""

    def __post_init__(self) -> None:
        if self.model.positions == "learned":
            require(
                self.model.max_positions >= self.data.max_tokens,
                "model.max_positions",
                f"at least data.max_tokens ({self.data.max_tokens}) for learned positions",
                self.model.max_positions,
            )
        if self.model.architecture == "recurrent":
            require(
                not self.train.gradient_checkpointing,
                "train.gradient_checkpointing",
                "false for model.architecture recurrent",
                self.train.gradient_checkpointing,
            )

    def check_learnable(self) -> None:
        """Check that the vocabulary can be learned from the corpus.

        Vocabularies of a converted run may have common ids without being joint; learned ones
        have not.

        Raises:
            ConfigError: There is no corpus, or tied embeddings need a joint vocabulary.
        """
        self.data.check_corpus()
        if self.model.embeddings == "tied":
            require(
                self.data.joint,
                "data.joint",
                "true for model.embeddings tied (decoder and untied work without)",
                self.data.joint,
            )


SECTIONS: dict[str, Any] = {item.name: item.default_factory for item in dataclasses.fields(Config)}
"""The dataclass of each section by name."""


def from_dict(values: dict[str, Any], base: Config | None = None) -> Config:
    """Build a configuration from nested dictionaries.

    Args:
        values: ``{"model": {...}, "train": {...}}``; fields left out come from ``base``.
        base: The configuration to start from, or None for the defaults.

    Raises:
        ConfigError: An unknown section or field, with the valid ones, or an invalid value.
    """
    base = base or Config()
    sections: dict[str, Any] = {}
    for section, fields in values.items():
        if section not in SECTIONS:
            raise ConfigError(f"{section}: expected one of {', '.join(SECTIONS)}")
        if not isinstance(fields, dict):
            raise ConfigError(f"{section}: expected fields and values, got {format_value(fields)}")
        valid = [item.name for item in dataclasses.fields(SECTIONS[section])]
        for name in fields:
            if name not in valid:
                raise ConfigError(f"{section}.{name}: expected one of {', '.join(valid)}")
        sections[section] = dataclasses.replace(getattr(base, section), **fields)
    return dataclasses.replace(base, **sections)


def to_dict(config: Config) -> dict[str, Any]:
    """Convert a configuration to nested dictionaries of plain values, for YAML or JSON."""
    return {
        section: {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }
        for section, fields in dataclasses.asdict(config).items()
    }
