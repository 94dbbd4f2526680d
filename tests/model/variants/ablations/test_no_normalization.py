"""Sub-layers without layer normalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.model.variants.ablations.no_normalization import NoNormalizationConnection


def test_by_hand() -> None:
    layer = NoNormalizationConnection()
    output = layer(tf.constant([[[1.0, 3.0]]]), sublayer=lambda y: 2.0 * y)
    np.testing.assert_array_equal(output, [[[3.0, 9.0]]])
    assert not layer.weights


def test_no_part_of_the_network_normalizes(tiny_model: Any) -> None:
    model = tiny_model(ablation="no_normalization")
    assert model.get_layer("encoder").final_norm is None
    assert model.get_layer("decoder").final_norm is None
    assert not any("gamma" in weight.path for weight in model.weights)
