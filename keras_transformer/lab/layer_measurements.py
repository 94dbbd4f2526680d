"""Measurements of each layer: norms of gradients and activations, rank distance.

Layers are named ``embedding``, ``encoder_0``, ``encoder_1``, …, ``decoder_0``, …; the recurrent
encoder and decoder are one layer each, ``encoder`` and ``decoder``.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.model.attention_weights import stack_inputs
from keras_transformer.model.layer_stack import LayerStack
from keras_transformer.special_tokens import PAD
from keras_transformer.training.loss import token_losses

Inputs = dict[str, tf.Tensor]
"""``{"source": (B, S), "target": (B, T)}``, int32 ids."""


def gradient_norms(model: keras.Model, inputs: Inputs, labels: Any) -> dict[str, float]:
    """Return the gradient norm of each layer's weights.

    The loss is the mean over real tokens, without label smoothing and dropout. The final layer
    normalization is ``encoder_norm`` or ``decoder_norm``. Output projection and learned positions
    count as ``embedding``.

    Args:
        model: A model from `transformer.build`.
        inputs: Its inputs.
        labels: (B, T) ids.
    """
    groups = _weights_by_layer(model)
    variables = [weight.value for weights in groups.values() for weight in weights]
    labels = tf.convert_to_tensor(labels)
    with tf.GradientTape() as tape:
        losses = token_losses(model(inputs, training=False), labels)
        loss = tf.reduce_sum(losses) / tf.reduce_sum(tf.cast(labels != PAD, tf.float32))
    gradients = iter(tape.gradient(loss, variables, unconnected_gradients="zero"))
    return {
        name: float(tf.linalg.global_norm([next(gradients) for _ in weights]))
        for name, weights in groups.items()
    }


def activation_norms(model: keras.Model, inputs: Inputs) -> dict[str, float]:
    """Return the mean norm of a real token's vector after each layer, without dropout.

    ``embedding`` is the encoder's input: source embeddings with positions.
    """
    norms = {}
    for name, x, real in _outputs(model, inputs):
        norms[name] = float(np.linalg.norm(x, axis=-1)[real].mean())
    return norms


def rank_distances(model: keras.Model, inputs: Inputs) -> list[float]:
    """Return the `rank_distance` of the encoder's embeddings and of each layer's output.

    Each is the mean over sentences. It falls to 0 with depth if the vectors of all tokens become
    equal (rank collapse).
    """
    distances = []
    for name, x, real in _outputs(model, inputs):
        if not name.startswith("decoder"):
            rows = [rank_distance(row[mask]) for row, mask in zip(x, real, strict=True)]
            distances.append(float(np.mean(rows)))
    return distances


def rank_distance(x: np.ndarray) -> float:
    """Return ‖X - mean row‖ / ‖X‖ of vectors (S, D): 0 if all of them are the same.

    Source: the residual of Dong et al. 2021, in the Frobenius norm.
    """
    return float(np.linalg.norm(x - x.mean(axis=0)) / np.linalg.norm(x))


def _weights_by_layer(model: keras.Model) -> dict[str, list[keras.Variable]]:
    groups: dict[str, list[keras.Variable]] = {"embedding": []}
    for layer in model.layers:
        if isinstance(layer, LayerStack):
            for i, part in enumerate(layer.layers):
                groups[f"{layer.name}_{i}"] = part.trainable_weights
            if layer.final_norm is not None:
                groups[f"{layer.name}_norm"] = layer.final_norm.trainable_weights
        elif layer.name in ("encoder", "decoder"):
            groups[layer.name] = layer.trainable_weights
        else:
            groups["embedding"] += layer.trainable_weights
    return groups


def _outputs(model: keras.Model, inputs: Inputs) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return name, output (B, L, D) and real tokens (B, L) of the embedding and of each layer."""
    ids = inputs["source"], inputs["target"]
    encoder_inputs, decoder_inputs = stack_inputs(model, *ids)
    real = [np.asarray(each) != PAD for each in ids]
    found = [("embedding", encoder_inputs[0].numpy(), real[0])]
    for name, (x, *rest), mask in zip(
        ("encoder", "decoder"), (encoder_inputs, decoder_inputs), real, strict=True
    ):
        stack = model.get_layer(name)
        if not isinstance(stack, LayerStack):
            found.append((name, stack(x, *rest, training=False).numpy(), mask))
            continue
        for i, layer in enumerate(stack.layers):
            x = layer(x, *rest, training=False)
            found.append((f"{name}_{i}", x.numpy(), mask))
    return [(name, x.astype(np.float32), mask) for name, x, mask in found]
