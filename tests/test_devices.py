"""GPUs of the machine, with device files and details made up for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keras_transformer import devices
from keras_transformer.devices import (
    best_precision,
    dealt_gpus,
    describe_devices,
    device_files,
    unused_gpu_hint,
)

H100: dict[str, Any] = {"device_name": "NVIDIA H100", "compute_capability": (9, 0)}
T4: dict[str, Any] = {"device_name": "Tesla T4", "compute_capability": (7, 5)}
P100: dict[str, Any] = {"device_name": "Tesla P100", "compute_capability": (6, 0)}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a folder of device files with three GPUs; the others are no GPUs."""
    for name in ("nvidia0", "nvidia2", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


def test_devices_in_words() -> None:
    assert describe_devices(1, []) == "1 CPU"
    assert describe_devices(2, []) == "2 CPUs"
    assert describe_devices(8, [H100] * 4) == "8 GPUs, NVIDIA H100"
    assert describe_devices(2, [T4, H100]) == "2 GPUs, NVIDIA H100 and Tesla T4"
    assert describe_devices(1, [{}]) == "1 GPU"


def test_device_files_of_gpus(machine: Path) -> None:
    assert device_files(machine) == ["nvidia0", "nvidia2", "nvidia10"]
    assert device_files(machine / "missing") == []


def test_an_unused_gpu_is_named_with_the_way_out(machine: Path, tmp_path: Path) -> None:
    hint = unused_gpu_hint(None, machine)
    assert hint.startswith(f"this machine has 3 GPUs ({machine / 'nvidia0'}), which TensorFlow ")
    assert 'pip install "keras-translate[gpu]"' in hint
    assert "Colab" in hint
    assert unused_gpu_hint("0,1", machine) == hint
    # The user hides them, or there is none.
    assert unused_gpu_hint("-1", machine) == unused_gpu_hint("", machine) == ""
    assert unused_gpu_hint(None, tmp_path / "missing") == ""


@pytest.mark.parametrize(
    ("gpus", "precision"),
    [
        ([H100], "bfloat16"),
        ([T4, T4], "float16"),
        ([H100, T4], "float16"),  # all take part in each step
        ([P100], "float32"),
        ([{}], "float32"),
    ],
)
def test_the_fastest_precision_of_gpus(gpus: list[dict[str, Any]], precision: str) -> None:
    assert best_precision(gpus)[0] == precision


def test_the_fastest_precision_of_a_cpu(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags : avx2 avx512_bf16\n")
    assert best_precision([], info) == ("bfloat16", "the CPU has avx512_bf16")
    info.write_text("flags : avx2 avx512f\n")
    assert best_precision([], info)[0] == "float32"
    assert best_precision([], tmp_path / "missing")[0] == "float32"
    assert best_precision([T4])[1] == "Tesla T4, compute capability 7.5"


def test_gpus_are_dealt_out_evenly(machine: Path, tmp_path: Path) -> None:
    assert dealt_gpus(2, "0,1,2,3") == ["0,1", "2,3"]
    assert dealt_gpus(2, "4, 6,7") == ["4", "6"]  # each worker has as many as the others
    assert dealt_gpus(3, None, machine) == ["0", "1", "2"]
    assert dealt_gpus(2, "GPU-aa,GPU-bb") == ["GPU-aa", "GPU-bb"]
    assert dealt_gpus(2, "5") == ["", ""]  # too few
    assert dealt_gpus(2, "-1") == dealt_gpus(2, None, tmp_path / "missing") == []


def test_the_tests_have_no_gpu_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert not devices.has_gpu()
    assert devices.unused_gpu() == ""
