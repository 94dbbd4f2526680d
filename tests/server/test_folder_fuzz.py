"""Version folders with one damaged file: not loaded, or the right answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from keras_transformer.server.servable import load, to_rest_error
from keras_transformer.server.settings import ServeError, check_folder
from tests.server.test_servable import record
from tests.support.damage import Damage, apply, contents, damages, fresh_copy, harmless, time_limit

WARMUP = "assets.extra/tf_serving_warmup_requests"
GRAPH = "saved_model.pb"
OPTIONAL = (WARMUP, "fingerprint.pb", "export.json")
"""Files without which a SavedModel can be served."""


@pytest.fixture(scope="module")
def version(save_shouter, tmp_path_factory):
    """A version folder with all kinds of files."""
    folder = save_shouter(tmp_path_factory.mktemp("models") / "1")
    record(folder / WARMUP, "a")
    return folder


@pytest.fixture(scope="module")
def other(save_shouter, tmp_path_factory):
    """A version folder of another model with the same shapes."""
    folder = save_shouter(tmp_path_factory.mktemp("models") / "1", scale=-3.0)
    record(folder / WARMUP, "a", "b")
    return folder


def answer(folder):
    """Return the scores of a loaded folder, or the message of its error."""
    try:
        servable = load(folder)
    except Exception as error:
        return None, str(to_rest_error(error))
    texts = {"text": np.array([b"abc", b""], dtype=object)}
    return servable.run("serving_default", texts)["score"].tolist(), ""


@pytest.mark.parametrize("count", [6, pytest.param(300, marks=pytest.mark.slow)])
def test_a_damaged_export_answers_right_or_is_not_loaded(version, other, tmp_path, count) -> None:
    expected = [pytest.approx(-0.3), 0.0]

    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(damage=damages(version))
    @example(damage=Damage(GRAPH, "pipe"))
    @example(damage=Damage("variables/variables.data-00000-of-00001", "swapped"))
    def check(damage):
        with fresh_copy(version, tmp_path / "m" / "1") as copy, time_limit():
            apply(damage, copy, other)
            before = contents(copy)
            scores, error = answer(copy)
            assert contents(copy) == before
            if scores is None:
                assert error
                assert not harmless(damage, version, other), error
            else:
                assert scores == expected
                assert harmless(damage, version, other) or damage.file.startswith(OPTIONAL)

    check()


@pytest.mark.parametrize("kind", ["missing", "dangling link", "link to itself", "folder", "pipe"])
def test_a_version_without_a_graph_is_named(version, other, tmp_path, kind) -> None:
    with fresh_copy(version, tmp_path / "m" / "1") as copy:
        apply(Damage(GRAPH, kind), copy, other)
        with pytest.raises(ServeError, match=r"m/1: there is no saved_model\.pb in it"):
            check_folder(copy.parent)
