"""The picture of the imports: levels, edges that a longer way replaces, circles."""

from __future__ import annotations

import graphlib

import pytest

from tools import architecture_picture


def test_edges_that_a_longer_way_replaces_are_left_out() -> None:
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}

    assert architecture_picture.reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_an_edge_past_a_level_has_a_place_there() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}

    assert architecture_picture.levels(graph) == [["c", "d"], ["b", "a>d>1"], ["a"]]


def test_a_circle_is_refused() -> None:
    with pytest.raises(graphlib.CycleError):
        architecture_picture.reduced({"a": {"b"}, "b": {"a"}})


def test_model_and_data_import_no_other_room_but_compat() -> None:
    graph = architecture_picture.imports()

    assert graph["model"] <= {"compat"}
    assert graph["data"] <= {"compat"}
    assert {"attention", "kernels/"} <= set(architecture_picture.rooms()["model"])
