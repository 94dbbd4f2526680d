"""Fixtures of the data tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.config import DataConfig
from tests.data.small_corpus import DEV, TRAIN, write_tsv


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    return DataConfig(
        train=write_tsv(tmp_path / "train.tsv", TRAIN),
        dev=write_tsv(tmp_path / "dev.tsv", DEV),
        source="en",
        target="it",
        vocabulary_size=300,
    )
