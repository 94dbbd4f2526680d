"""Messages about packages that are not installed."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from keras_transformer.optional_dependencies import MissingError, install_command, require_installed


@pytest.mark.parametrize(
    ("modules", "extras"),
    [
        (["matplotlib"], "plots"),
        (["tensorboard"], "tensorboard"),
        (["tensorboard", "matplotlib"], "tensorboard"),
        (["uvicorn", "starlette"], "serve"),
        (["tensorflow_serving", "tensorflow_datasets"], "tfds,serve"),
    ],
)
def test_a_missing_package_is_installed_by_the_smallest_extra(
    modules: list[str], extras: str
) -> None:
    assert install_command(modules) == f'pip install "keras-translate[{extras}]"'


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_installed("x", ["json", "math"])
    monkeypatch.setitem(sys.modules, "starlette", None)  # importing it fails
    with pytest.raises(
        MissingError,
        match=r"^serve: expected json and starlette to be installed, starlette is not: "
        r'pip install "keras-translate\[serve\]"$',
    ):
        require_installed("serve", ["json", "starlette"])


def test_an_installed_package_that_fails_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> Any:
        raise ValueError("numpy.dtype size changed\nmore")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(
        MissingError,
        match=r"^train.tensorboard: matplotlib is installed, but its import fails: numpy.dtype "
        "size changed$",
    ):
        require_installed("train.tensorboard", ["matplotlib"])
