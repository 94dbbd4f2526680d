"""Optional packages, and the extras of the distribution that install them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from keras_transformer.errors import UserError

DISTRIBUTION = "keras-translate"

EXTRAS = {
    "serve": ("starlette", "uvicorn", "prometheus_client", "tensorflow_serving"),
    "tfds": ("tensorflow_datasets",),
    "plots": ("matplotlib",),
    "tensorboard": ("tensorboard", "matplotlib"),
    "ctranslate2": ("ctranslate2",),
}
"""Modules that each extra brings."""


class MissingError(UserError):
    """A missing package that an option needs."""


def missing(names: Sequence[str]) -> list[str]:
    """Return the modules that cannot be imported, themselves or for lack of a dependency."""
    absent = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            absent.append(name)
    return absent


def require_installed(purpose: str, names: Sequence[str]) -> None:
    """Refuse an option or a command whose packages are missing.

    Args:
        purpose: The option or command, for the message.
        names: The modules that it needs.

    Raises:
        MissingError: Names the missing packages and the command that installs them.
    """
    absent = missing(names)
    if absent:
        raise MissingError(
            f"{purpose}: expected {' and '.join(names)} to be installed, {' and '.join(absent)} "
            f"{'is' if len(absent) == 1 else 'are'} not: {install_command(absent)}"
        )


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs these modules, with the smallest extras that have them."""
    wanted, extras = set(names), []
    while wanted:
        useful = {name: brings for name, brings in EXTRAS.items() if wanted.intersection(brings)}
        best = max(
            useful, key=lambda name: (len(wanted.intersection(useful[name])), -len(useful[name]))
        )
        extras.append(best)
        wanted -= set(useful[best])
    return f'pip install "{DISTRIBUTION}[{",".join(extras)}]"'
