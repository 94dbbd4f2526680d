"""Attention weights of a whole model for given sentence pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.model.decoder import Decoder
from keras_transformer.model.encoder import Encoder


class AttentionWeights(NamedTuple):
    """Attention weights by layer, without dropout; rows are queries."""

    encoder: list[np.ndarray]
    """(B, H, S, S) float32 for each layer: self-attention of the encoder."""
    decoder: list[np.ndarray]
    """(B, H, T, T) float32 for each layer: masked self-attention of the decoder."""
    cross: list[np.ndarray]
    """(B, H, T, S) float32 for each layer: from the decoder to the encoder's output."""


def attention_weights(model: keras.Model, source: Any, target: Any) -> AttentionWeights:
    """Return the weights of every attention layer (section 3.2.3), with the target given.

    A row sums to 1 over the keys that its query may attend to, and is 0 at the others; it is 0
    everywhere if there are none. The rows of padded queries mean nothing.

    Args:
        model: A model from `transformer.build`, of any variant. Without self-attention in
            encoder or decoder, their lists are empty.
        source: (B, S) source ids, each sentence with its end token, padded.
        target: (B, T) target ids, start token first, padded. Row t of decoder and
            cross-attention weights is the query that predicts the token after position t.
    """
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    encoder_inputs, (x, *inputs) = stack_inputs(model, source, target)

    own: list[tf.Tensor] = []
    if isinstance(encoder, Encoder):
        own = encoder(*encoder_inputs, return_weights=True)[1]
    if not isinstance(decoder, Decoder):
        _, cross = decoder(x, *inputs, return_weights=True)
        return AttentionWeights(_arrays(own), [], _arrays(cross))
    past, cross = [], []
    for layer in decoder.layers:
        x, past_weights, cross_weights = layer(x, *inputs, return_weights=True)
        past.append(past_weights)
        cross.append(cross_weights)
    return AttentionWeights(_arrays(own), _arrays(past), _arrays(cross))


def stack_inputs(
    model: keras.Model, source: Any, target: Any
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Return the inputs of the encoder and of the decoder, without dropout.

    Args:
        model: A model from `transformer.build`.
        source: (B, S) source ids.
        target: (B, T) target ids.

    Returns:
        Embeddings (B, S, D) and source mask; embeddings (B, T, D), encoder output (B, S, D),
        target mask and source mask.
    """
    stacks = [model.get_layer(name) for name in ("encoder", "decoder")]
    inner = keras.Model(model.input, [stack.input for stack in stacks], name="stack_inputs")
    ids = {"source": tf.cast(source, tf.int32), "target": tf.cast(target, tf.int32)}
    encoder_inputs, decoder_inputs = inner(ids, training=False)
    return encoder_inputs, decoder_inputs


def _arrays(weights: list[tf.Tensor]) -> list[np.ndarray]:
    return [np.asarray(layer, "float32") for layer in weights]
