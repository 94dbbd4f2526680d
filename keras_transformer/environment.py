"""Environment variables and settings files of TensorFlow, Keras and the other libraries.

A command sets or removes those that would change or break it. A program that uses the package as a
library keeps its own; the first import of a Keras module refuses those with which Keras cannot
work.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.optional_dependencies import mark_broken

_NEEDED = {
    "KERAS_BACKEND": "tensorflow",
    # Keras reads keras.json there, for example the type of the weights; ~/.keras is the user's.
    "KERAS_HOME": str(Path(__file__).parent / "compat" / "keras_home"),
    # Keras imports Matplotlib, which fails outside a notebook if its backend is the notebook's.
    "MPLBACKEND": "Agg",
    # An empty file, because a setting of the user such as text.usetex needs other programs.
    "MATPLOTLIBRC": os.devnull,
}
"""Variables that every command sets."""

_UNWANTED = (
    "KERAS_MAX_EPOCHS",  # would shorten `fit`
    "KERAS_MAX_STEPS_PER_EPOCH",
    "KERAS_NNX_ENABLED",  # of the JAX backend
    "TF_USE_LEGACY_KERAS",  # Keras 2
)
"""Variables that every command removes."""

_UNWANTED_PREFIX = "JSONARGPARSE_"
"""Beginning of more of them: options from variables, stack traces in place of messages."""

ARITHMETIC = (
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "TF_DETERMINISTIC_OPS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_SET_ONEDNN_FPMATH_MODE",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
"""Variables that change rounding or precision; they stay, and the log names them."""


class SettingError(UserError):
    """A variable or settings file with which Keras cannot work as the package needs it."""


def set_for_command(name: str = "") -> None:
    """Set the variables that a command needs and remove those that would change it.

    Call it before Keras is imported.

    Args:
        name: The command. All but ``train`` leave the memory of a GPU that they do not need to
            other processes, such as a training.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if name != "train":
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.update(_NEEDED)
    for name in list(os.environ):
        if name in _UNWANTED or name.startswith(_UNWANTED_PREFIX):
            del os.environ[name]


def leave_out_broken_matplotlib() -> None:
    """Make Matplotlib count as not installed if its import fails.

    Keras imports it if it is installed, and handles no error but ImportError. No command needs a
    picture.
    """
    for name in ("matplotlib", "matplotlib.pyplot"):
        try:
            importlib.import_module(name)
        except ImportError:
            return
        except Exception as error:
            mark_broken(name, error)
            return


def import_tensorflow_text() -> None:
    """Import TensorFlow's text operations.

    Raises:
        SettingError: Python has removed the docstrings, which their import formats.
    """
    if sys.flags.optimize > 1:
        raise SettingError(
            "PYTHONOPTIMIZE=2 (or python -OO) removes docstrings, without which TensorFlow's text "
            "operations cannot be imported; unset it, or use PYTHONOPTIMIZE=1"
        )
    importlib.import_module("tensorflow_text")


def import_keras() -> None:
    """Import Keras and check its backend and its default type.

    Raises:
        SettingError: A variable or settings file, which the message names, chooses another
            backend or type, or makes the import fail.
    """
    try:
        keras = importlib.import_module("keras")
        backend, floatx = keras.config.backend(), keras.config.floatx()
    except Exception as error:
        culprit = _culprit(str(error))
        if culprit is None:
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise SettingError(
            f"{culprit} stops the import of Keras ({lines[-1].partition(';')[0]}); "
            f"{_way_out(culprit)}"
        ) from error
    if backend != "tensorflow":
        variable = os.environ.get("KERAS_BACKEND")
        culprit = f"KERAS_BACKEND={variable}" if variable else f"{_keras_json()}: backend {backend}"
        raise SettingError(f"{culprit}: expected tensorflow; {_way_out(culprit)}")
    # Losses and metrics convert token ids to this type; 16 bits round those above 256 or 2,048.
    if floatx not in ("float32", "float64"):
        raise SettingError(
            f"floatx {floatx} (in {_keras_json()}, or by keras.config.set_floatx): expected "
            "float32, since token ids are converted to it"
        )


def _culprit(message: str) -> str | None:
    """Return the setting that made the import of Keras fail with ``message``, if there is one."""
    plots = os.environ.get("MPLBACKEND")
    if plots and plots in message:
        return f"MPLBACKEND={plots}"
    backend = os.environ.get("KERAS_BACKEND")
    if backend and backend != "tensorflow":
        return f"KERAS_BACKEND={backend}"
    for name in ("KERAS_MAX_EPOCHS", "KERAS_MAX_STEPS_PER_EPOCH"):
        if not os.environ.get(name, "0").isdecimal():
            return f"{name}={os.environ[name]}"
    for name in ("TF_USE_LEGACY_KERAS", "KERAS_NNX_ENABLED"):
        if os.environ.get(name, "").lower() in ("true", "1"):
            return f"{name}={os.environ[name]}"
    return str(_keras_json()) if _keras_json().is_file() else None


def _way_out(culprit: str) -> str:
    name = culprit.partition("=")[0]
    if name.isupper():
        return f"unset {name} and start Python again"
    return "change it and start Python again"


def _keras_json() -> Path:
    """Return the path of Keras' settings file."""
    home = os.environ.get("KERAS_HOME")
    with contextlib.suppress(RuntimeError):  # no home directory
        return (Path(home) if home else Path.home() / ".keras") / "keras.json"
    return Path("keras.json")


def check_fit_limits() -> None:
    """Check that no limit of Keras shortens `fit`.

    Raises:
        SettingError: A limit is set; the message names the variable.
    """
    keras = importlib.import_module("keras")
    for name in ("max_epochs", "max_steps_per_epoch"):
        limit = getattr(keras.config, name, lambda: None)()
        if limit is not None:
            raise SettingError(
                f"KERAS_{name.upper()}={limit} (or keras.config.set_{name}): it would shorten the "
                "training; use train.max_steps instead"
            )


def arithmetic_settings() -> list[str]:
    """Return a line for the log if variables change rounding or precision."""
    found = [f"{name}={os.environ[name]}" for name in ARITHMETIC if os.environ.get(name)]
    if not found:
        return []
    return [f"set in the environment, changes rounding or precision: {', '.join(found)}"]
