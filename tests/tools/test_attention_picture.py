"""The picture of attention: a cell for each weight, tokens as text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tools.attention_picture import picture


def test_picture_has_a_cell_for_each_weight() -> None:
    svg = picture(["\u2581A", "</s>"], ["\u2581我", "。"], np.array([[1.0, 0.0], [0.25, 0.75]]))
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]

    assert texts[:4] == ["A", "</s>", "我", "1.00"]
    assert texts[4:7] == ["。", ".25", ".75"]
    # Weight 1 is the dark color, 0 white; the ground is white too.
    assert len(re.findall('fill="#155891"', svg)) == 1
    assert len(re.findall('<rect [^>]*fill="#ffffff"', svg)) == 2


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights: expected \(1, 2\), got \(2, 1\)"):
        picture(["a", "b"], ["c"], np.zeros((2, 1)))
