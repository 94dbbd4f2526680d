"""The exported tf.Module: tokenizer, model, search and detokenizer as signatures.

Shapes: B batch, S source length, L output length, N hypotheses of `nbest`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.forbidden_tokens import forbidden_tokens
from keras_transformer.serving.saved_model.graph_tokenizer import GraphTokenizer
from keras_transformer.serving.saved_model.signatures import Outputs, Signatures
from keras_transformer.serving.saved_model.weights import Weights


class ServedTranslator(tf.Module):
    """Text-to-text translator as a graph.

    Every input and output has the batch as its first dimension. Each row is independent of the
    others. Inputs are arbitrary bytes; invalid UTF-8 becomes U+FFFD. A text longer than
    ``max_tokens`` is cut: refusing it would refuse the whole batch.

    Args:
        model: The model, with layers in the dtype to compute in.
        weights: Its weights as stored.
        tokenizer: Its tokenizer.
        search: Beam, length penalty, n_best, longest output, and tokens per chunk.
        max_tokens: Longest source, END counted.
        source_end: ``data.source_end``: whether each source ends in END.

    Raises:
        ConfigError: A piece of ``search.suppress`` is not in the target vocabulary.
    """

    def __init__(
        self,
        model: keras.Model,
        weights: Weights,
        tokenizer: Tokenizer,
        search: SearchConfig,
        max_tokens: int,
        source_end: bool = True,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.source = GraphTokenizer(tokenizer.source, max_tokens)
        self.target = (
            self.source if tokenizer.joint else GraphTokenizer(tokenizer.target, max_tokens)
        )
        functions = Signatures(
            model,
            weights,
            self.source,
            self.target,
            search,
            forbidden_tokens(search, tokenizer.target),
            source_end,
        )

        @tf.function(input_signature=[_texts("text")], autograph=False)
        def translate(text: tf.Tensor) -> Outputs:
            return functions.translate(text)

        @tf.function(input_signature=[_texts("text")], autograph=False)
        def nbest(text: tf.Tensor) -> Outputs:
            return functions.nbest(text)

        @tf.function(
            input_signature=[
                _texts("text"),
                tf.TensorSpec([None], tf.float32, name="alpha"),
                tf.TensorSpec([None], tf.int32, name="max_extra"),
            ],
            autograph=False,
        )
        def options(text: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor) -> Outputs:
            return functions.options(text, alpha, max_extra)

        @tf.function(input_signature=[_texts("source"), _texts("target")], autograph=False)
        def score(source: tf.Tensor, target: tf.Tensor) -> Outputs:
            return functions.score(source, target)

        @tf.function(input_signature=[_texts("text")], autograph=False)
        def align(text: tf.Tensor) -> Outputs:
            return functions.align(text)

        self.translate = translate
        """text -> translation, score (log-probability over length penalty), truncated (text or
        translation reached its limit)."""
        self.nbest = nbest
        """text -> translations (B, N), best first, and scores (B, N); missing hypotheses are ""
        with -1e9."""
        self.options = options
        """text, alpha (0 to 10), max_extra (at most the exported one) -> as ``translate``."""
        self.score = score
        """source, target -> score, log_probability, tokens (END counted)."""
        self.align = align
        """text -> as ``translate``, and source_pieces (B, S), target_pieces (B, L), attention
        (B, L, S), padded with "" and 0."""

    @property
    def signatures(self) -> dict[str, Any]:
        """Return the functions by signature name."""
        return {
            "serving_default": self.translate,
            "translate": self.translate,
            "nbest": self.nbest,
            "options": self.options,
            "score": self.score,
            "align": self.align,
        }


def _texts(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None], tf.string, name=name)
