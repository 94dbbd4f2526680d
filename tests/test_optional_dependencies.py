"""Messages about packages that are not installed."""

from __future__ import annotations

import sys

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
