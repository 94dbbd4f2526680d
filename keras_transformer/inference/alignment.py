"""Which source tokens a translation comes from, read off the attention to the encoder.

Shapes: B batch, H heads, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_transformer.data.tokenizer import PAD, SentencePiece
from keras_transformer.inference.plain_text import plain


@dataclass(frozen=True)
class Attention:
    """How much each token of a translation looked at each token of its source."""

    source: tuple[str, ...]
    """S pieces of the line, a space as U+2581, the end token last."""
    target: tuple[str, ...]
    """T pieces of the translation; the end token last, unless the limit came before it."""
    weights: np.ndarray
    """(T, S) float32; each row sums to 1."""
    source_words: tuple[int, ...]
    """For each of ``source_pieces``, which word it belongs to; nothing where there is no word."""
    target_words: tuple[int, ...]
    """The same of the translation."""

    @property
    def source_pieces(self) -> tuple[str, ...]:
        """``source`` without the end token."""
        return self.source[:-1]

    @property
    def target_pieces(self) -> tuple[str, ...]:
        """``target`` without the end token."""
        return self.target[:-1] if self.target[-1:] == self.source[-1:] else self.target

    @property
    def links(self) -> list[tuple[int, int]]:
        """One (source, target) link for each word of the translation, by target.

        It leads to the word of the source whose pieces have the greatest weight in the rows of
        the target word's pieces. Words are what stands between spaces, numbered from 0, in the
        translation and in the line as the tokenizer reads it.
        """
        return links(self.weights, self.source_words, self.target_words)

    @property
    def piece_links(self) -> list[tuple[int, int]]:
        """The same of pieces, the end tokens left out."""
        source, target = len(self.source_pieces), len(self.target_pieces)
        return links(self.weights, range(source), range(target))


def links(
    weights: np.ndarray, source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """One (source unit, target unit) link for each target unit, by target.

    Args:
        weights: (T, S) attention.
        source: The unit that each of the first columns belongs to, without gaps, ascending.
            Further columns are left out: the end token draws weight wherever a head
            finds nothing to look at.
        target: The unit that each of the first rows belongs to.
    """
    if not len(source) or not len(target):
        return []
    sums = np.zeros((max(target) + 1, max(source) + 1))
    np.add.at(sums, np.ix_(target, source), weights[: len(target), : len(source)])
    return [(int(row.argmax()), unit) for unit, row in enumerate(sums)]


def words_of_pieces(side: SentencePiece, ids: Sequence[int]) -> tuple[int, ...]:
    """Which word of a text each piece of it belongs to, counted from 0.

    A word is what stands between spaces. A piece belongs to the word that is the last one
    once it is written, so that pieces of any spelling (bytes, spaces alone) are counted as
    the text that comes out has them. Where no text comes out, no piece belongs to a word.
    """
    texts = [plain(text) for text in side.decode([ids[: place + 1] for place in range(len(ids))])]
    return tuple(text.count(" ") for text in texts) if texts and texts[-1] else ()


def attention_matrix(weights: Sequence[tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
    """One matrix a sentence, of the weights of all layers and heads.

    It is the mean over the heads of the last layer but one, which Garg et al. (2019, "Jointly
    Learning to Align and Translate with Transformer Models") found nearest to alignments made
    by people.

    Args:
        weights: For each decoder layer (B, H, T, S), from ``IncrementalDecoder.forward``.
        labels: (B, T) int32, the tokens predicted with them, padded.

    Returns:
        (B, T, S) float32. The rows of real tokens sum to 1, those of padding to 0.
    """
    mean = tf.reduce_mean(weights[max(len(weights) - 2, 0)], axis=1)
    return mean * tf.cast(labels != PAD, tf.float32)[:, :, None]
