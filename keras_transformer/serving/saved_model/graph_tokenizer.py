"""Tokenizer inside a graph, with the same results as ``Translator`` in Python.

Shapes: B batch, S source length, N hypotheses, L output length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.inference.plain_text import spaces
from keras_transformer.special_tokens import END, PAD


class Encoded(NamedTuple):
    """A batch of texts as ids."""

    ids: tf.Tensor
    """(B, S) int32, rows of ``special_tokens.source_tokens``, padded; S is 1 or more."""
    lengths: tf.Tensor
    """(B,) int32: number of ids, END counted."""
    cut: tf.Tensor
    """(B,) bool: whether the text was too long and was cut."""
    end: bool
    """Whether each row ends in END; otherwise only that of a blank text does."""

    @property
    def blank(self) -> tf.Tensor:
        """(B,) bool: whether the text has no token."""
        if self.end:
            return self.lengths == 1
        return tf.reduce_all((self.ids == END) | (self.ids == PAD), axis=1)


class GraphTokenizer(tf.Module):
    """Tokenizer of one language in the graph.

    Args:
        side: Tokenizer of one language.
        max_tokens: Longest row of ids, END counted where there is one; longer texts are cut.
    """

    def __init__(self, side: LanguageTokenizer, max_tokens: int) -> None:
        super().__init__()
        self._tokenizer: Any = side.graph()
        self._spaces = spaces(side)
        self._max_tokens = max_tokens

    def encode(self, texts: tf.Tensor, end: bool = True) -> Encoded:
        """Encode texts.

        Args:
            texts: (B,) string; a blank text is END alone.
            end: Whether END follows the ids of the other texts too.
        """
        max_ids = self._max_tokens - end
        ids = self._tokenizer.tokenize(texts)  # ragged (B, None)
        cut = tf.cast(ids.row_lengths(), tf.int32) > max_ids
        ids = ids[:, :max_ids]
        tokens = tf.concat([ids, tf.fill([ids.nrows(), 1], END)], axis=1)
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        if end:
            return Encoded(tokens.to_tensor(PAD), lengths, cut, end)
        lengths = tf.maximum(lengths - 1, 1)
        tokens = tokens.to_tensor(PAD)
        tokens = tf.where(tf.range(tf.shape(tokens)[1]) < lengths[:, None], tokens, PAD)
        widest = tf.maximum(tf.reduce_max(lengths), 1)  # without rows the maximum is below 0
        return Encoded(tokens[:, :widest], lengths, cut, end)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Decode padded ids (..., L) to (...) string, each one line of plain text."""
        size = tf.reduce_prod(tf.shape(ids)[:-1])
        flat = tf.reshape(ids, [size, tf.shape(ids)[-1]])  # (size, L)
        rows = tf.RaggedTensor.from_tensor(flat, padding=PAD)
        texts = tf.strings.regex_replace(self._tokenizer.detokenize(rows), self._spaces, " ")
        return tf.reshape(tf.strings.strip(texts), tf.shape(ids)[:-1])  # (...)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the token of each id (B, L), "" for padding."""
        return tf.where(ids == PAD, "", self._tokenizer.id_to_string(ids))
