"""Environment and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Before anything imports TensorFlow: its log would bury a failure.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
if not os.environ.get("KERAS_TRANSFORMER_GPU"):  # the expected numbers are those of a CPU
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
if os.environ.get("PYTEST_XDIST_WORKER"):
    # One worker per core: more threads wait for each other longer than they compute.
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}
# A process with many trainings would keep the memory of the largest.
os.environ["KERAS_TRANSFORMER_TUNE_ALLOCATOR"] = "0"
# For the processes that tests start; in this one `no_network` refuses connections.
os.environ |= {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1"}

# No cyclic garbage collection: each full collection visits the millions of objects of traced
# graphs.
gc.disable()

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FIRST = ("docs", "training", "serving", "test_end_to_end.py", "inference", "model")
LOCAL = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "")


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Leave what is there to the end of the process; pytest would collect it here."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the folders with the longest tests first, so that both workers end together."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Refuse connections to other machines, so that no test depends on one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _local_only(getattr(socket.socket, name)))
        yield


def _local_only(connect: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: socket.socket, address: Any) -> Any:
        internet = self.family in (socket.AF_INET, socket.AF_INET6)
        if internet and str(address[0]) not in LOCAL:
            raise ConnectionRefusedError(f"tests have no network: {address}")
        return connect(self, address)

    return checked


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora (multi30k, tatoeba_en_zh); skips where it is absent."""
    path = ROOT / os.environ.get("KERAS_TRANSFORMER_DATA", "../shared/data")
    if not path.is_dir():
        pytest.skip(f"no corpora at {path}: set KERAS_TRANSFORMER_DATA to their folder")
    return path


@pytest.fixture(scope="session")
def talkative() -> Callable[[Any], Any]:
    """Give a model with a layer "projection" random weights with clear preferences.

    The most probable tokens then do not depend on rounding.
    """
    import numpy as np

    from keras_transformer.special_tokens import END

    def change(model: Any) -> Any:
        random = np.random.default_rng(7)
        for weight in model.weights:  # wide, so that some tokens are clearly better than others
            offset = random.normal(0.0, 1.2, weight.shape)
            # Gains and biases start from 1 and 0; matrices start at random, which must not count.
            weight.assign(weight + offset if len(weight.shape) == 1 else offset)
        # Mostly words rather than bytes, and END often enough.
        table = model.get_layer("projection").matrix
        rows = table.numpy()
        rows[END + 1 : END + 257] = 0.0
        rows[END] *= 1.5
        table.assign(rows)
        return model

    return change
