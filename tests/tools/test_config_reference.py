"""The configuration reference: a row for each field, from the docstrings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from keras_transformer.config import TrainConfig
from tools import config_reference


def test_a_field_has_its_default_its_presets_and_its_docstring() -> None:
    (row,) = [
        line
        for line in config_reference.reference().splitlines()
        if line.startswith("| `--train.max_steps`")
    ]

    assert row.startswith("| `--train.max_steps` | 100,000 | demo 1000, tiny 8000, rnn 8000, ")
    assert row.endswith(f"{config_reference.field_docstrings(TrainConfig)['max_steps']} |")


def test_choices_are_listed() -> None:
    assert "One of `post`, `pre`." in config_reference.reference()


@dataclass
class Silent:
    a: int = 0
    """Explained."""
    b: int = 0


def test_a_field_without_docstring_is_refused() -> None:
    with pytest.raises(ValueError, match="Silent: expected a docstring under b"):
        config_reference.field_docstrings(Silent)
