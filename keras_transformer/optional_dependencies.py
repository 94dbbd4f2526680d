"""Optional packages, and the extras of the distribution that install them."""

from __future__ import annotations

import importlib
import sys
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
"""Modules that each extra installs."""


class MissingError(UserError):
    """A missing package that an option or command needs."""


_broken: dict[str, str] = {}


def mark_broken(name: str, error: Exception) -> None:
    """Let every later import of an installed module fail with ImportError.

    Libraries go on without an optional module for that error only.

    Args:
        name: The module.
        error: What its import raised.
    """
    _broken[name] = _reason(error)
    sys.modules[name] = None  # type: ignore[assignment]


def unusable(names: Sequence[str]) -> dict[str, str]:
    """Return the modules that cannot be imported, each with the reason.

    The reason is empty where a package is not installed.
    """
    found = {}
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            found[name] = _broken.get(name, "")
        except Exception as error:  # another version, or a setting of the user
            found[name] = _reason(error)
    return found


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def require_installed(purpose: str, names: Sequence[str]) -> None:
    """Check that the packages of an option or command are installed.

    Args:
        purpose: The option or command, for the message.
        names: The modules that it needs.

    Raises:
        MissingError: Names the missing packages and the command that installs them, or the
            reason why an installed one cannot be imported.
    """
    problems = unusable(names)
    for name, reason in problems.items():
        if reason:
            raise MissingError(f"{purpose}: {name} is installed, but its import fails: {reason}")
    absent = list(problems)
    if absent:
        raise MissingError(
            f"{purpose}: expected {' and '.join(names)} to be installed, {' and '.join(absent)} "
            f"{'is' if len(absent) == 1 else 'are'} not: {install_command(absent)}"
        )


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs these modules, with the smallest extras."""
    wanted, extras = set(names), []
    while wanted:
        useful = {name: brings for name, brings in EXTRAS.items() if wanted.intersection(brings)}
        best = max(
            useful, key=lambda name: (len(wanted.intersection(useful[name])), -len(useful[name]))
        )
        extras.append(best)
        wanted -= set(useful[best])
    return f'pip install "{DISTRIBUTION}[{",".join(extras)}]"'
