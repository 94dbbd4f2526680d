"""The picture of the imports: levels, edges that follow from others, cycles."""

from __future__ import annotations

import graphlib

import pytest

from tools import architecture_picture


def test_edges_that_follow_from_others_are_left_out() -> None:
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}

    assert architecture_picture.reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_an_edge_across_a_level_passes_through_it() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}

    assert architecture_picture.levels(graph) == [["c", "d"], ["b", "a>d>1"], ["a"]]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(graphlib.CycleError):
        architecture_picture.reduced({"a": {"b"}, "b": {"a"}})


def test_model_and_data_import_only_compat() -> None:
    graph = architecture_picture.imports()

    assert graph["model"] <= {"compat"}
    assert graph["data"] <= {"compat"}
    assert {"attention", "kernels/"} <= set(architecture_picture.rooms()["model"])
