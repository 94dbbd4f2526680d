"""Damaged and hostile sources: one line for the user, and no code of theirs runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from keras_transformer.convert import registry
from keras_transformer.convert.conversion import configuration
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings import ConvertSettings
from tests.support import foreign_models
from tests.support.damage import Damage, apply, damages
from tests.support.fuzzing import attempt, fuzz

WRITERS: dict[str, Callable[..., Any]] = {
    "marian": foreign_models.write_opus_folder,
    "hf_marian": foreign_models.write_hf_folder,
}
pytestmark = pytest.mark.slow

COUNT = 120
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 10**9, 10**30, 0.5, -1e300, "", "n", "2", "transformer"]),
    st.lists(st.integers(-1, 3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 2), max_size=2),
)


def read(source: Path, name: str) -> ForeignModel:
    """Read a model as the command does, up to TensorFlow."""
    settings = ConvertSettings()
    model = registry.find(source, name).read(source, settings)
    configuration(model, settings, source)
    return model


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_are_refused_or_read(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / "whole")

    def check(damage: Damage) -> None:
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "m")
        apply(damage, tmp_path / "m", tmp_path / "whole")
        attempt(lambda: read(tmp_path / "m", ""))
        attempt(lambda: read(tmp_path / "m", name))

    fuzz(COUNT, damage=damages(tmp_path / "whole"))(check)


@pytest.mark.parametrize("name", WRITERS)
def test_changed_bytes_are_refused_or_read(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path)
    files = sorted(path for path in tmp_path.iterdir() if path.is_file())
    contents = {path: path.read_bytes() for path in files}

    def check(path: Path, share: float, replacement: bytes) -> None:
        content = contents[path]
        place = int(share * len(content))
        # Headers are at the beginning, and the directory of an archive at the end.
        changed = content[:place] + replacement + content[place + len(replacement) :]
        path.write_bytes(changed)
        attempt(lambda: read(tmp_path, name))
        path.write_bytes(content)

    edges = st.one_of(st.floats(0, 0.05), st.floats(0, 1), st.floats(0.9, 1))
    strategies = {"path": st.sampled_from(files), "share": edges}
    fuzz(COUNT, **strategies, replacement=st.binary(min_size=1, max_size=8))(check)


def test_strange_settings_are_refused_or_read(tmp_path: Path) -> None:
    size = len(foreign_models.vocabulary())
    tensors = foreign_models.write_opus_folder(tmp_path / "marian")
    foreign_models.write_hf_folder(tmp_path / "hf_marian")
    options, config = foreign_models.marian_options(size), foreign_models.hf_config(size + 1)

    def check_marian(option: str, value: object) -> None:
        changed = options | {option: value}
        foreign_models.write_marian(tmp_path / "marian" / "model.npz", tensors, changed)
        attempt(lambda: read(tmp_path / "marian", "marian"))

    def check_hf(option: str, value: object) -> None:
        path = tmp_path / "hf_marian" / "config.json"
        foreign_models.write_json(path, config | {option: value})
        attempt(lambda: read(tmp_path / "hf_marian", "hf_marian"))

    fuzz(COUNT, option=st.sampled_from(sorted(options)), value=VALUES)(check_marian)
    fuzz(COUNT, option=st.sampled_from(sorted(config)), value=VALUES)(check_hf)
