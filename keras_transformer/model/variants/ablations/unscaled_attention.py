"""Dot-product attention without the factor 1 / sqrt(d_k) of section 3.2.1."""

from __future__ import annotations

import keras

from keras_transformer.model.attention import MultiHeadAttention


@keras.saving.register_keras_serializable("keras_transformer")
class UnscaledAttention(MultiHeadAttention):
    """softmax(Q Kᵀ) V: the softmax saturates as the variance of the scores grows with d_k.

    The arguments are as for `MultiHeadAttention`.
    """

    @property
    def score_scale(self) -> float:
        return 1.0
