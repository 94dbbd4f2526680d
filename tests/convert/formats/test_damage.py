"""Damaged sources of the formats: one line for the user."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.convert import registry
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.errors import UserError
from tests.support import foreign_networks

WRITERS: dict[str, Callable[[Path], Any]] = {
    "fairseq": foreign_networks.write_fairseq,
    "fsmt": foreign_networks.write_fsmt,
    "joeynmt": foreign_networks.write_joey,
    "ctranslate2": foreign_networks.write_ctranslate2,
}


@pytest.mark.parametrize("name", WRITERS)
def test_changed_bytes_are_refused_or_read(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path)
    assert name == registry.find(tmp_path).NAME
    chosen = random.Random(1)
    messages = []
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for share in (0.01, 0.5, 0.99):
            place = int(share * len(whole))
            noise = chosen.randbytes(8)
            for damaged in (whole[:place], whole[:place] + noise + whole[place + 8 :]):
                path.write_bytes(damaged)
                try:
                    registry.load(name).read(tmp_path, ConvertSettings())
                except UserError as error:
                    messages.append(str(error))
        path.write_bytes(whole)
    assert len(messages) >= 10
    assert not any("\n" in message for message in messages)
    registry.load(name).read(tmp_path, ConvertSettings())
