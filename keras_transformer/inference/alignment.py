"""Which source tokens a translation comes from, read off the attention to the encoder.

Shapes: B batch, H heads, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD


def attention_matrix(weights: Sequence[tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
    """One matrix a sentence, of the weights of all layers and heads.

    It is the mean over the heads of the last layer but one, which Garg et al. (2019, "Jointly
    Learning to Align and Translate with Transformer Models") found nearest to alignments made
    by people.

    Args:
        weights: For each decoder layer (B, H, T, S), from ``Decoding.forward``.
        labels: (B, T) int32, the tokens predicted with them, padded.

    Returns:
        (B, T, S) float32. The rows of real tokens sum to 1, those of padding to 0.
    """
    mean = tf.reduce_mean(weights[max(len(weights) - 2, 0)], axis=1)
    return mean * tf.cast(labels != PAD, tf.float32)[:, :, None]
