"""Variables and settings files that would change or break the libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer import environment, optional_dependencies
from keras_transformer.environment import SettingError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment of its own, with a home but without any variable of Keras."""
    own = {"HOME": "/home/user", "TF_CPP_MIN_LOG_LEVEL": "1"}
    monkeypatch.setattr(os, "environ", own)
    return own


def fake_keras(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, **settings: Any
) -> None:
    """Replace Keras by one with these settings, or by one whose import fails."""
    values = {"backend": "tensorflow", "floatx": "float32"} | settings
    keras = SimpleNamespace(
        config=SimpleNamespace(
            **{name: lambda value=value: value for name, value in values.items()}
        )
    )

    def load(name: str) -> Any:
        if error is not None:
            raise error
        return keras

    monkeypatch.setattr(environment, "importlib", SimpleNamespace(import_module=load))


def test_python_without_docstrings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=2)))
    with pytest.raises(SettingError, match=r"PYTHONOPTIMIZE=2 .* unset it"):
        environment.import_tensorflow_text()


def test_only_training_takes_all_memory_of_a_gpu(variables: dict[str, str]) -> None:
    environment.set_for_command("train")
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in variables
    environment.set_for_command("translate")
    assert variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"  # the user's choice
    environment.set_for_command("serve")
    assert variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"


def test_a_command_sets_what_it_needs(variables: dict[str, str]) -> None:
    variables |= {
        "KERAS_BACKEND": "jax",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MATPLOTLIBRC": "/home/user/style",
        "KERAS_HOME": "/home/user/.keras",
        "KERAS_MAX_EPOCHS": "1",
        "KERAS_MAX_STEPS_PER_EPOCH": "2",
        "TF_USE_LEGACY_KERAS": "1",
        "JSONARGPARSE_DEFAULT_ENV": "true",
        "JSONARGPARSE_DEBUG": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
    }
    environment.set_for_command("train")
    variables.pop("PYTEST_CURRENT_TEST", None)
    settings = json.loads((Path(variables.pop("KERAS_HOME")) / "keras.json").read_text("utf-8"))
    assert variables == {
        "HOME": "/home/user",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "KERAS_BACKEND": "tensorflow",
        "MPLBACKEND": "Agg",
        "MATPLOTLIBRC": os.devnull,
        "NVIDIA_TF32_OVERRIDE": "0",
    }
    assert settings == {
        "floatx": "float32",
        "epsilon": 1e-7,
        "backend": "tensorflow",
        "image_data_format": "channels_last",
    }


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        (
            {"KERAS_BACKEND": "jax"},
            ModuleNotFoundError("No module named 'jax'"),
            "KERAS_BACKEND=jax stops the import of Keras (No module named 'jax'); "
            "unset KERAS_BACKEND and start Python again",
        ),
        (
            {"MPLBACKEND": "no_such", "KERAS_BACKEND": "tensorflow"},
            ValueError("Key backend: 'no_such' is not a valid value for backend"),
            "MPLBACKEND=no_such stops the import of Keras",
        ),
        (
            {"KERAS_MAX_EPOCHS": "all"},
            ValueError("invalid literal for int() with base 10: 'all'"),
            "KERAS_MAX_EPOCHS=all stops the import of Keras",
        ),
        (
            {"TF_USE_LEGACY_KERAS": "1"},
            ImportError("Keras cannot be imported"),
            "TF_USE_LEGACY_KERAS=1 stops the import of Keras",
        ),
    ],
)
def test_the_variable_that_stops_the_import_is_named(
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    setting: dict[str, str],
    error: Exception,
    message: str,
) -> None:
    variables |= setting
    fake_keras(monkeypatch, error)
    with pytest.raises(SettingError) as refused:
        environment.import_keras()
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_the_settings_file_that_stops_the_import_is_named(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variables["KERAS_HOME"] = str(tmp_path)
    fake_keras(monkeypatch, AssertionError())
    with pytest.raises(AssertionError):  # no setting to blame
        environment.import_keras()
    (tmp_path / "keras.json").write_text('{"floatx": "float15"}')
    with pytest.raises(SettingError, match="keras.json stops the import of Keras .AssertionError."):
        environment.import_keras()


@pytest.mark.parametrize(
    ("setting", "settings", "message"),
    [
        ({"KERAS_BACKEND": "torch"}, {"backend": "torch"}, "^KERAS_BACKEND=torch: expected tensor"),
        ({}, {"backend": "torch"}, r"^/home/user/.keras/keras.json: backend torch: expected tens"),
        ({}, {"floatx": "float16"}, r"^floatx float16 \(in /home/user/.keras/keras.json, or by"),
        ({}, {"floatx": "bfloat16"}, r"^floatx bfloat16 .*: expected float32, since token ids"),
    ],
)
def test_another_backend_or_type_is_refused(
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    setting: dict[str, str],
    settings: dict[str, str],
    message: str,
) -> None:
    variables |= setting
    fake_keras(monkeypatch, **settings)
    with pytest.raises(SettingError, match=message):
        environment.import_keras()
    for floatx in ("float32", "float64"):
        fake_keras(monkeypatch, floatx=floatx)
        environment.import_keras()


def test_public_names_with_keras_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_keras(monkeypatch, backend="jax")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    for name in ("layers", "build", "train_run", "Translator"):
        with pytest.raises(SettingError, match="KERAS_BACKEND=jax"):
            kt.__getattr__(name)


@pytest.mark.parametrize("name", ["max_epochs", "max_steps_per_epoch"])
def test_a_limit_of_fit_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fake_keras(monkeypatch, max_epochs=None, max_steps_per_epoch=None)
    environment.check_fit_limits()
    fake_keras(monkeypatch, **{"max_epochs": None, "max_steps_per_epoch": None, name: 7})
    with pytest.raises(SettingError, match=rf"KERAS_{name.upper()}=7 .*use train\.max_steps"):
        environment.check_fit_limits()


@pytest.mark.parametrize("error", [ValueError("a bad style"), AttributeError(), OSError("a cache")])
def test_keras_goes_without_a_matplotlib_that_fails(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", sys.modules.get("matplotlib"))
    monkeypatch.setattr(optional_dependencies, "_broken", {})
    with monkeypatch.context() as patch:
        fake_keras(patch, error)
        environment.leave_out_broken_matplotlib()
    with pytest.raises(ImportError):
        import matplotlib  # noqa: F401
    reason = str(error) or "AttributeError"
    assert optional_dependencies.unusable(["matplotlib"]) == {"matplotlib": reason}


def test_variables_that_change_rounding_are_listed(variables: dict[str, str]) -> None:
    assert environment.arithmetic_settings() == []
    variables |= {"TF_ENABLE_ONEDNN_OPTS": "0", "NVIDIA_TF32_OVERRIDE": "0"}
    [line] = environment.arithmetic_settings()
    assert line.endswith(": NVIDIA_TF32_OVERRIDE=0, TF_ENABLE_ONEDNN_OPTS=0")


@pytest.fixture
def hostile(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in a process with everything that could disturb it."""
    (tmp_path / "keras.json").write_text('{"floatx": "float15", "backend": "torch"}')
    (tmp_path / "style").write_bytes(b"font.family: \xff\n")
    settings = {
        "KERAS_HOME": str(tmp_path),
        "MATPLOTLIBRC": str(tmp_path / "style"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "KERAS_BACKEND": "jax",
        "KERAS_MAX_STEPS_PER_EPOCH": "some",
        "KERAS_NNX_ENABLED": "1",
        "TF_USE_LEGACY_KERAS": "1",
    }

    def run(code: str, **only: str) -> subprocess.CompletedProcess[str]:
        mine = only or settings
        kept = {name: value for name, value in os.environ.items() if name not in settings}
        return subprocess.run(
            [sys.executable, "-c", code],
            env=kept | mine,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


COMMAND = """
import sys
from keras_transformer.cli.main import import_tensorflow, run_main

@run_main("train")
def main(argv):
    import_tensorflow()
    import keras, matplotlib
    keras.Sequential([keras.layers.Dense(1)])(keras.ops.ones((1, 1)))
    print(keras.config.backend(), keras.config.floatx(), keras.config.max_steps_per_epoch())
    print(matplotlib.get_backend().lower())

sys.exit(main([]))
"""


@pytest.mark.slow
def test_a_command_works_in_a_hostile_environment(
    hostile: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    pytest.importorskip("matplotlib")
    done = hostile(COMMAND)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["tensorflow float32 None", "agg"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        {"KERAS_BACKEND": "jax"},
        {"KERAS_BACKEND": "nonsense"},
        {"MPLBACKEND": "no_such_backend"},
        {"KERAS_MAX_EPOCHS": "some"},
        {"KERAS_NNX_ENABLED": "1"},
    ],
)
def test_the_library_names_the_variable(
    hostile: Callable[..., subprocess.CompletedProcess[str]], setting: dict[str, str]
) -> None:
    if "MPLBACKEND" in setting:
        pytest.importorskip("matplotlib")
    done = hostile("import keras_transformer as kt; kt.build", **setting)
    [(name, value)] = setting.items()
    last = done.stderr.strip().splitlines()[-1]
    assert f"SettingError: {name}={value} stops the import of Keras" in last
    assert last.endswith(f"unset {name} and start Python again")
