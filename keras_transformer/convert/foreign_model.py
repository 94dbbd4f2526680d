"""A model of another system in this package's terms: settings, weights, tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from keras_transformer.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class ForeignModel:
    """A checkpoint that a format has read; nothing is written yet.

    Args:
        format: Name of the format, such as "hf_marian".
        settings: Fields of the configuration that differ from their defaults, by dotted name:
            ``{"model.heads": 8, "search.beam": 6}``. Vocabulary sizes come from the tokenizer.
        weights: The weights by attribute path from the model's layers, in float32 or float16:
            ``encoder/layers/0/self_attention/query_kernel``. Kernels are (in, out), embeddings
            (V, D), with rows in the order of the tokenizer's ids.
        tokenizer: The tokenizer, with this package's special ids.
        notes: Lines for the user: differences from the source system, text that must be prepared
            outside.
        facts: Facts for the first line about the source, such as "6 + 6 layers".
    """

    format: str
    settings: dict[str, Any]
    weights: dict[str, np.ndarray]
    tokenizer: Tokenizer
    notes: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
