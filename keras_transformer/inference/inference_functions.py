"""Compiled inference functions, from ids to hypotheses, scores and attention.

Each function is traced once for all shapes. AutoGraph is off: no Python control flow has to
become graph operations, and its analysis would take most of the time of the first call.

Shapes: B batch, S source length, P prefix length, T target length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.inference.alignment import attention_matrix
from keras_transformer.inference.search.generate import Start, generate, width
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.inference.search.scoring import forced_log_probabilities
from keras_transformer.model.incremental.factory import incremental_decoder
from keras_transformer.special_tokens import PAD, START

_IDS = tf.TensorSpec([None, None], tf.int32)
_SEEDS = tf.TensorSpec([None, 2], tf.int32)


class InferenceFunctions:
    """Compiled functions of one model and one search configuration.

    Args:
        model: A model from ``transformer.build``; later changes of its weights count.
        search: The search strategy and its options.
        fixed: Whether the weights never change again, which makes searches faster.
        forbidden: Ids that are never generated; see `generate`.
        source_end: ``data.source_end``: whether each source ends in END.
    """

    def __init__(
        self,
        model: keras.Model,
        search: SearchConfig,
        fixed: bool = False,
        *,
        forbidden: Sequence[int] | None = None,
        source_end: bool = True,
    ) -> None:
        self._decoder = incremental_decoder(model, fixed)
        self._search = search
        self._forbidden = forbidden
        self._source_end = source_end
        self.generate = tf.function(self._generate, input_signature=[_IDS, _SEEDS], autograph=False)
        """(source (B, S), seeds (B, 2)) -> ``Hypotheses``."""
        self.generate_after = tf.function(
            self._generate, input_signature=[_IDS, _SEEDS, _IDS], autograph=False
        )
        """(source (B, S), seeds (B, 2), prefix (B, P)) -> ``Hypotheses`` that begin with it."""

        @tf.function(input_signature=[_IDS, _IDS], autograph=False)
        def force(source: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            inputs = {"source": source, "target": shift_right(labels)}
            return forced_log_probabilities(model(inputs, training=False), labels)

        @tf.function(input_signature=[_IDS, _IDS], autograph=False)
        def attention(source: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            # The graph does not compute the logits, which are not used.
            _, weights = self._decoder.forward(source, shift_right(labels))
            return attention_matrix(weights, labels)

        self.force = force
        """(source (B, S), labels (B, T)) -> log-probability of each label (B, T)."""
        self.attention = attention
        """(source (B, S), labels (B, T)) -> attention (B, T, S)."""

    @property
    def start(self) -> Start:
        """The function that encodes a batch and returns its step function and state."""
        return self._decoder.start

    @property
    def width(self) -> int:
        """Rows per sentence in every step of the search."""
        return width(self._search)

    def search(self, source: np.ndarray, prefix: np.ndarray | None = None) -> Hypotheses:
        """Translate a batch.

        Args:
            source: (B, S) int32, rows of ``special_tokens.source_tokens``, padded.
            prefix: (B, P) int32, the first tokens of each translation, padded; None: no
                prefix.

        Returns:
            The hypotheses of ``generate.generate``.
        """
        seeds = sentence_seeds(source, self._search.seed)
        if prefix is None:
            return self.generate(tf.constant(source), seeds)
        return self.generate_after(tf.constant(source), seeds, tf.constant(prefix))

    def _generate(
        self, source: tf.Tensor, seeds: tf.Tensor, prefix: tf.Tensor | None = None
    ) -> Hypotheses:
        return generate(
            self.start,
            source,
            self._search,
            seeds=seeds,
            prefix=prefix,
            forbidden=self._forbidden,
            source_end=self._source_end,
        )


def sentence_seeds(source: np.ndarray, seed: int) -> np.ndarray:
    """Return a seed for each sentence that depends on its tokens, not on its place in the batch.

    Args:
        source: (B, S) int32, padded.
        seed: Base seed; another one changes the seed of every sentence.

    Returns:
        (B, 2) int32.
    """
    key = str(seed).encode()[:64]
    digests = (
        hashlib.blake2b(row[row != PAD].astype("<i4").tobytes(), digest_size=8, key=key).digest()
        for row in source
    )
    return np.frombuffer(b"".join(digests), "<i4").astype(np.int32).reshape(-1, 2)


def shift_right(labels: tf.Tensor) -> tf.Tensor:
    """Return the decoder input that predicts ``labels``, both (B, T): START, then the labels."""
    start = tf.fill([tf.shape(labels)[0], 1], START)
    return tf.concat([start, labels[:, :-1]], axis=1)
