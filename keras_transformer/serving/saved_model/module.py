"""The translator as a graph: a sentence in, a sentence out, with nothing of Python in it.

Shapes: B batch, S source pieces, L pieces of the translation, N translations of `nbest`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.serving.saved_model.graph_tokenizer import GraphTokenizer
from keras_transformer.serving.saved_model.signatures import Outputs, Signatures
from keras_transformer.serving.saved_model.weights import Weights


class ServedTranslator(tf.Module):
    """What is exported: tokenizer, network, search and detokenizer.

    Every function takes and gives tensors whose first dimension is the batch: one answer for
    each row, in order, whatever the other rows are. Any bytes are text; what is not UTF-8
    becomes U+FFFD. A text beyond ``max_tokens`` is cut, as a server that refused it would
    refuse the rest of the batch too.

    Args:
        model: The network, whose layers have the dtype to compute in.
        weights: Its weights as they are to be stored.
        tokenizer: The tokenizer that it was trained with.
        search: Beam, length penalty, translations of `nbest`, greatest length, and the tokens
            that are computed at once.
        max_tokens: Longest source, END counted; longer texts are cut.
    """

    def __init__(
        self,
        model: keras.Model,
        weights: Weights,
        tokenizer: Tokenizer,
        search: SearchConfig,
        max_tokens: int,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.source = GraphTokenizer(tokenizer.source, max_tokens)
        self.target = (
            self.source if tokenizer.joint else GraphTokenizer(tokenizer.target, max_tokens)
        )
        answers = Signatures(model, weights, self.source, self.target, search)

        @tf.function(input_signature=[_texts("text")], autograph=False)
        def translate(text: tf.Tensor) -> Outputs:
            return answers.translate(text)

        @tf.function(input_signature=[_texts("text")], autograph=False)
        def nbest(text: tf.Tensor) -> Outputs:
            return answers.nbest(text)

        @tf.function(
            input_signature=[
                _texts("text"),
                tf.TensorSpec([None], tf.float32, name="alpha"),
                tf.TensorSpec([None], tf.int32, name="max_extra"),
            ],
            autograph=False,
        )
        def options(text: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor) -> Outputs:
            return answers.options(text, alpha, max_extra)

        @tf.function(input_signature=[_texts("source"), _texts("target")], autograph=False)
        def score(source: tf.Tensor, target: tf.Tensor) -> Outputs:
            return answers.score(source, target)

        @tf.function(input_signature=[_texts("text")], autograph=False)
        def align(text: tf.Tensor) -> Outputs:
            return answers.align(text)

        self.translate = translate
        """text -> translation, score (log-probability over length penalty), truncated (the
        text was too long, or the translation)."""
        self.nbest = nbest
        """text -> translations (B, N), best first, and scores (B, N); where fewer can be
        found, "" and -1e9."""
        self.options = options
        """text, alpha (0 to 10), max_extra (at most the exported one) -> as ``translate``."""
        self.score = score
        """source, target -> score, log_probability, tokens (END counted)."""
        self.align = align
        """text -> as ``translate``, and source_pieces (B, S), target_pieces (B, L), attention
        (B, L, S), padded with "" and 0."""

    @property
    def signatures(self) -> dict[str, Any]:
        """The functions by the names under which they are served."""
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
