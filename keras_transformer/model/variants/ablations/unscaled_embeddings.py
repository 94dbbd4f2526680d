"""Embeddings without the factor sqrt(d_model) of section 3.4."""

from __future__ import annotations

import keras

from keras_transformer.model.embedding import TokenEmbedding


@keras.saving.register_keras_serializable("keras_transformer")
class UnscaledEmbedding(TokenEmbedding):
    """Embeddings of norm about 1 beside positional encodings of norm sqrt(D / 2).

    The arguments are as for `TokenEmbedding`.
    """

    @property
    def scale(self) -> float:
        return 1.0
