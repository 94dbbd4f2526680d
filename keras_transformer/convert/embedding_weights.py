"""Embeddings and output projection of another system, in the order of our ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.vocabulary_rows import NONE, VocabularyRows

Weights = dict[str, np.ndarray]


def embedding_weights(
    source: np.ndarray,
    target: np.ndarray,
    projection: np.ndarray | None,
    bias: np.ndarray | None,
    rows: tuple[VocabularyRows, VocabularyRows],
) -> tuple[Weights, dict[str, Any]]:
    """Return the weights of embeddings and projection, and the fields that describe them.

    The output bias is there if the other system has one, or if a token of ours must be kept out of
    the softmax.

    Args:
        source: Source embeddings (V, D); the same object as ``target`` if both are tied.
        target: Target embeddings (V, D).
        projection: Output projection (V, D); None: tied to the target embeddings.
        bias: Output bias (V,); None: none.
        rows: Rows of the source and of the target vocabulary.

    Raises:
        ConvertError: Tied matrices have vocabularies of different order.
    """
    source_rows, target_rows = rows
    needs_bias = bias is not None or bool((target_rows.scored == NONE).any())
    if projection is None and source is target:
        if not np.array_equal(source_rows.embedded, target_rows.embedded):
            raise ConvertError(
                "vocabulary: expected the same one on both sides, since their embeddings are one "
                "matrix, got two"
            )
        kind, holder = "tied", "embedding"
        weights = {"embedding/matrix": target_rows.embedding(target)}
    else:
        kind, holder = "decoder", "target_embedding"
        weights = {
            "source_embedding/matrix": source_rows.embedding(source),
            "target_embedding/matrix": target_rows.embedding(target),
        }
        if projection is not None:
            kind, holder = "untied", "projection"
            weights["projection/matrix"] = target_rows.projection(projection)
    if needs_bias:
        weights[f"{holder}/output_bias"] = target_rows.output_bias(bias)
    return weights, {"model.embeddings": kind, "model.output_bias": needs_bias}
