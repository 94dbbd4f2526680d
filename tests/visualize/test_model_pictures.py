"""Pictures of the parts of a model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from keras_transformer import visualize
from keras_transformer.presets import PRESETS

pytestmark = pytest.mark.slow


def test_dot_products_depend_on_the_distance_alone() -> None:
    figure = visualize.positions_figure(512, 80)
    lines = {line.get_label(): line for line in figure.axes[2].get_lines()}
    products = {
        label: dict(zip(*(values.tolist() for values in line.get_data()), strict=True))
        for label, line in lines.items()
    }

    assert products["from position 20"][1] == pytest.approx(249.1, abs=0.1)
    assert products["from position 20"][0] == pytest.approx(256, abs=0.01)
    assert products["from position 50"][-7] == pytest.approx(products["from position 20"][-7], 1e-4)


def test_every_preset_has_a_curve() -> None:
    (axes,) = visualize.schedules_figure().axes
    curves = {
        line.get_label(): line.get_ydata()
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }

    assert curves.keys() == PRESETS.keys()
    assert curves["base"][0] == pytest.approx(1.747e-7, rel=1e-3)
    assert np.max(curves["base"]) == pytest.approx(7.0e-4, rel=1e-2)


def test_masks_are_those_of_the_model() -> None:
    figure = visualize.masks_figure(source=6, source_padding=2, target=5, padding=1)
    masks = [np.asarray(axes.collections[0].get_array()) for axes in figure.axes]

    assert [mask.shape for mask in masks] == [(6, 6), (5, 5), (5, 5), (5, 5), (5, 6)]
    assert [int(mask.sum()) for mask in masks] == [24, 15, 20, 14, 20]
