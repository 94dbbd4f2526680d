"""Linear probe of the position in the tensors of each encoder layer.

Shapes: B batch, S source length, D model width.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data.phrasebook import pairs
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.model.masks import padding_mask
from keras_transformer.special_tokens import END
from tools.generated_blocks import table
from tools.walkthrough.formatting import number
from tools.walkthrough.forward import encoder_trace

LENGTH = 9
"""Tokens of the sentences, END counted: sentences of one length need no padding."""


def probe_block(model: keras.Model, tokenizer: Tokenizer) -> str:
    """Return the accuracy of a linear probe of the position after each encoder layer.

    The last column is the accuracy for the output of self-attention alone, without the residual
    connection.
    """
    source = sentences(tokenizer)
    mask = padding_mask(source)
    trace = list(encoder_trace(model, source))
    rows = [["embedding + position", _percent(trace[0].value), ""]]
    outputs = [trace[0], *(item for item in trace if item.part == "feed-forward")]
    alone: list[tf.Tensor] = []
    for count, layer in enumerate(model.get_layer("encoder").layers, 1):

        def attend(y: tf.Tensor, attention: keras.layers.Layer = layer.self_attention) -> tf.Tensor:
            alone.append(attention(y, y, mask))
            return alone[-1]

        layer.self_attention_connection(outputs[count - 1].value, sublayer=attend)
        rows.append([f"layer {count}", _percent(outputs[count].value), _percent(alone[-1])])
    return table(["after", "probe accuracy, %", "self-attention alone, %"], rows)


def sentences(tokenizer: Tokenizer) -> tf.Tensor:
    """Return the ids (B, S) of all held-out sentences of one length."""
    lines = [source for split in ("dev", "test") for source, _ in pairs(split)]
    encoded = tokenizer.source.encode(lines)
    return tf.constant([[*ids, END] for ids in encoded if len(ids) == LENGTH - 1])


def accuracy(features: np.ndarray) -> float:
    """Return the accuracy of a linear probe of the position, trained on half of the sentences.

    Args:
        features: (B, S, D).
    """
    batch, length, width = features.shape
    flat = np.c_[features.reshape(-1, width), np.ones(batch * length)]  # (B * S, D + 1)
    labels = np.tile(np.arange(length), batch)
    known = np.repeat(np.arange(batch) < batch // 2, length)
    weights = np.linalg.lstsq(flat[known], np.eye(length)[labels[known]], rcond=None)[0]
    return float(np.mean((flat[~known] @ weights).argmax(axis=1) == labels[~known]))


def _percent(x: tf.Tensor) -> str:
    # The last token is END in every sentence, which would reveal its position.
    return number(100 * accuracy(x.numpy()[:, :-1].astype(np.float64)), 1)
