"""What a translator computes: ids in, hypotheses, scores and attention out.

Each graph is traced once, for all shapes. No Python in them wants turning into graph
operations, and AutoGraph's reading of it would take most of the time of the first call.

Shapes: B batch, S source length, P prefix length, T target length.
"""

from __future__ import annotations

import hashlib

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import PAD, START
from keras_transformer.inference.alignment import attention_matrix
from keras_transformer.inference.search import strategies as searches
from keras_transformer.inference.search.strategies import Constraints, Hypotheses, Sampling
from keras_transformer.model.incremental.decoder import IncrementalDecoder

_IDS = tf.TensorSpec([None, None], tf.int32)
_SEEDS = tf.TensorSpec([None, 2], tf.int32)


class InferenceFunctions:
    """The graphs of one model and one way to search.

    Args:
        model: A model from ``transformer.build``; later changes of its weights count.
        search: Which search, and its options.
        fixed: There will be no changes, which makes searches faster.
    """

    def __init__(self, model: keras.Model, search: SearchConfig, fixed: bool = False) -> None:
        self._decoding = IncrementalDecoder(model, fixed)
        self._search = search
        self.find = tf.function(self._find, input_signature=[_IDS, _SEEDS], autograph=False)
        """(source (B, S), seeds (B, 2)) -> ``Hypotheses``."""
        self.find_after = tf.function(
            self._find, input_signature=[_IDS, _SEEDS, _IDS], autograph=False
        )
        """(source (B, S), seeds (B, 2), prefix (B, P)) -> ``Hypotheses`` that begin with it."""

        @tf.function(input_signature=[_IDS, _IDS], autograph=False)
        def force(source: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            inputs = {"source": source, "target": shifted(labels)}
            return searches.forced_log_probabilities(model(inputs, training=False), labels)

        @tf.function(input_signature=[_IDS, _IDS], autograph=False)
        def attend(source: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            # The logits are not asked for, so that the graph does not compute them.
            _, weights = self._decoding.forward(source, shifted(labels))
            return attention_matrix(weights, labels)

        self.force = force
        """(source (B, S), labels (B, T)) -> log-probability of each label (B, T)."""
        self.attend = attend
        """(source (B, S), labels (B, T)) -> attention (B, T, S)."""

    @property
    def width(self) -> int:
        """Rows of a sentence in each step of the search."""
        return self._search.n_best if self._search.sample else self._search.beam

    def search(self, source: np.ndarray, prefix: np.ndarray | None = None) -> Hypotheses:
        """The translations of a batch.

        Args:
            source: (B, S) int32, each row ending in END and then PAD.
            prefix: (B, P) int32, what each translation begins with, padded; None: nothing.
        """
        seeds = sentence_seeds(source, self._search.seed)
        if prefix is None:
            return self.find(tf.constant(source), seeds)
        return self.find_after(tf.constant(source), seeds, tf.constant(prefix))

    def _find(
        self, source: tf.Tensor, seeds: tf.Tensor, prefix: tf.Tensor | None = None
    ) -> Hypotheses:
        search = self._search
        constraints = constraints_of(search, prefix)
        step, state = self._decoding.start(source, self.width)
        limits = searches.length_limits(source, search.max_extra)
        if search.sample:
            return searches.sample(
                step,
                state,
                limits,
                seeds,
                sampling_from=Sampling(search.temperature, search.top_k, search.top_p),
                alpha=search.alpha,
                samples=search.n_best,
                constraints=constraints,
            )
        return searches.beam_search(
            step,
            state,
            limits,
            beam=search.beam,
            alpha=search.alpha,
            n_best=search.n_best,
            constraints=constraints,
        )


def constraints_of(search: SearchConfig, prefix: tf.Tensor | None = None) -> Constraints:
    """The rules that a configuration sets.

    Args:
        search: ``min_length`` and ``no_repeat_ngram`` are used.
        prefix: (B, P) int32, what each translation begins with; None: nothing.
    """
    return Constraints(
        min_length=search.min_length, no_repeat=search.no_repeat_ngram, prefix=prefix
    )


def sentence_seeds(source: np.ndarray, seed: int) -> np.ndarray:
    """A seed for each sentence, made of its tokens, so that its place anywhere does not count.

    Args:
        source: (B, S) int32, padded.
        seed: Another one gives other seeds to all.

    Returns:
        (B, 2) int32.
    """
    key = str(seed).encode()[:64]
    digests = (
        hashlib.blake2b(row[row != PAD].astype("<i4").tobytes(), digest_size=8, key=key).digest()
        for row in source
    )
    return np.frombuffer(b"".join(digests), "<i4").astype(np.int32).reshape(-1, 2)


def shifted(labels: tf.Tensor) -> tf.Tensor:
    """What the decoder reads to predict ``labels``, both (B, T): START, and all but the last."""
    start = tf.fill([tf.shape(labels)[0], 1], START)
    return tf.concat([start, labels[:, :-1]], axis=1)
