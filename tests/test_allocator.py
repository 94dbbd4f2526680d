"""Settings of glibc's allocator; each process of the tests leaves its own as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_transformer import allocator, train
from keras_transformer.errors import UserError

ROOT = Path(__file__).parents[1]
ON = {allocator.VARIABLE: "1"}

# Memory that is still resident after 64 MiB were written and freed, in MiB.
FREED = """
import ctypes, os, sys
from keras_transformer.allocator import report, tune_allocator

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

if sys.argv[1] == "tuned":
    assert tune_allocator() and len(report()) == 1
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
before = resident()
block = ctypes.c_void_p(libc.malloc(64 * 2**20))
ctypes.memset(block, 1, 64 * 2**20)
libc.free(block)
print(resident() - before)
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Settings that glibc would get, on a machine with glibc and no variable of the user."""
    found: list[tuple[int, int]] = []

    def mallopt(name: int, value: int) -> int:
        found.append((name, value))
        return 1

    monkeypatch.setattr(allocator, "_glibc", lambda: SimpleNamespace(mallopt=mallopt))
    monkeypatch.setattr(allocator, "_report", [])
    for name in (allocator.VARIABLE, "GLIBC_TUNABLES", *allocator._VARIABLES):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_settings_of_malloc_h(calls: list[tuple[int, int]]) -> None:
    assert allocator.tune_allocator()
    assert sorted(calls) == [(-4, 0), (-2, 268_435_456), (-1, 2_147_483_647)]
    [line] = allocator.report()
    assert "KERAS_TRANSFORMER_TUNE_ALLOCATOR=0 turns this off" in line


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        (allocator.VARIABLE, "0", []),
        ("MALLOC_TRIM_THRESHOLD_", "1000", ["memory allocator: as set by MALLOC_TRIM_THRESHOLD_"]),
        (
            "GLIBC_TUNABLES",
            "glibc.malloc.arena_max=2:glibc.malloc.mmap_max=9",
            ["memory allocator: as set by GLIBC_TUNABLES"],
        ),
    ],
)
def test_a_variable_of_the_user_wins(
    calls: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    lines: list[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert not allocator.tune_allocator()
    assert calls == []
    assert allocator.report() == lines


def test_other_tunables_do_not_matter(
    calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    assert allocator.tune_allocator()
    assert len(calls) == 3


def test_another_value_is_refused(
    calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(allocator.VARIABLE, "off")
    with pytest.raises(UserError, match=r"TUNE_ALLOCATOR: expected 0 or 1, got 'off'$"):
        allocator.tune_allocator()


def _unknown(name: str) -> str:
    raise ValueError("unrecognized configuration name")  # musl, macOS


@pytest.mark.parametrize("confstr", [_unknown, lambda name: None, lambda name: "musl 1.2"])
def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch, confstr: object) -> None:
    monkeypatch.setenv(allocator.VARIABLE, "1")
    monkeypatch.setattr(allocator, "_report", [])
    monkeypatch.setattr(os, "confstr", confstr, raising=False)
    assert not allocator.tune_allocator()
    assert allocator.report() == []


def test_without_confstr_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "confstr", raising=False)  # Windows
    assert allocator._glibc() is None


@pytest.mark.skipif(allocator._glibc() is None, reason="needs glibc's own allocator")
@pytest.mark.parametrize(("argument", "least", "most"), [("tuned", 60, 80), ("default", -5, 5)])
def test_freed_memory_stays_with_the_process(argument: str, least: int, most: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREED, argument],
        env=os.environ | ON,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert least < float(done.stdout) < most


def test_the_command_calls_it_before_tensorflow_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    monkeypatch.setattr(train, "tune_allocator", lambda: order.append("allocator"))
    monkeypatch.setattr(train, "import_tensorflow", lambda: order.append("tensorflow"))
    monkeypatch.setattr("keras_transformer.training.trainer.train", lambda *values, **options: None)
    assert train.main(["--run", "r"]) == 0
    assert order == ["allocator", "tensorflow"]
