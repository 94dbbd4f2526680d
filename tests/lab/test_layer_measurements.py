"""Measurements by layer, with values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.lab.layer_measurements import (
    activation_norms,
    gradient_norms,
    rank_distance,
    rank_distances,
)
from keras_transformer.model import transformer

SMALL = ModelConfig(
    source_vocabulary_size=13,
    target_vocabulary_size=13,
    encoder_layers=1,
    decoder_layers=1,
    d_model=8,
    heads=2,
    d_ff=12,
    embeddings="untied",
)
INPUTS = {
    "source": tf.constant([[5, 6, 7, 3], [9, 3, 0, 0]]),
    "target": tf.constant([[2, 7, 5], [2, 8, 0]]),
}
LABELS = np.array([[7, 5, 3], [8, 3, 0]])


def test_gradient_norms_by_hand() -> None:
    """A projection of zeros gives P = 1 / V, and no other weight a gradient."""
    model = transformer.build(SMALL)
    projection = transformer.projection(model).matrix
    projection.assign(tf.zeros(projection.shape))
    features = transformer.features(model)(INPUTS).numpy()[LABELS != 0]  # (5, D)
    errors = np.full((5, 13), 1 / 13)
    errors[np.arange(5), LABELS[LABELS != 0]] -= 1
    expected = np.linalg.norm(errors.T @ features / 5)
    norms = gradient_norms(model, INPUTS, LABELS)
    assert norms == {
        "embedding": pytest.approx(expected, 1e-5),
        "encoder_0": 0.0,
        "decoder_0": 0.0,
    }
    projection.assign(tf.ones(projection.shape) * np.arange(13)[:, None])
    assert all(norm > 0 for norm in gradient_norms(model, INPUTS, LABELS).values())


def test_activation_norms_by_hand() -> None:
    """Normalized features of width 8 have norm sqrt(8); embeddings are gathered rows."""
    model = transformer.build(SMALL)
    norms = activation_norms(model, INPUTS)
    assert list(norms) == ["embedding", "encoder_0", "decoder_0"]
    assert norms["encoder_0"] == pytest.approx(8**0.5, 1e-4)
    assert norms["decoder_0"] == pytest.approx(8**0.5, 1e-4)
    positions = model.get_layer("source_positions")
    rows = positions(transformer.source_embedding(model)(INPUTS["source"])).numpy()
    real = INPUTS["source"].numpy() != 0
    assert norms["embedding"] == pytest.approx(np.linalg.norm(rows, axis=-1)[real].mean(), 1e-5)


def test_rank_distance_by_hand() -> None:
    # The mean row is (1/2, 1/2): distances of 1/2 in four entries, over a norm of sqrt(2).
    assert rank_distance(np.eye(2)) == pytest.approx(1 / 2**0.5)
    assert rank_distance(np.ones((3, 4))) == 0.0
    distances = rank_distances(transformer.build(SMALL), INPUTS)
    assert len(distances) == 2
    assert all(0 < distance < 1 for distance in distances)


@pytest.mark.slow
def test_the_halves_of_a_recurrent_model() -> None:
    config = ModelConfig(
        architecture="recurrent",
        source_vocabulary_size=13,
        target_vocabulary_size=13,
        encoder_layers=2,
        decoder_layers=1,
        d_model=8,
        embeddings="decoder",
    )
    model = transformer.build(config)
    gradients, activations = gradient_norms(model, INPUTS, LABELS), activation_norms(model, INPUTS)
    assert list(gradients) == list(activations) == ["embedding", "encoder", "decoder"]
    assert all(norm > 0 for norm in (*gradients.values(), *activations.values()))
    assert len(rank_distances(model, INPUTS)) == 2
