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
    """(B, S) int32, each row ending in END and then padded; S is 1 or more."""
    lengths: tf.Tensor
    """(B,) int32: number of ids, END counted."""
    cut: tf.Tensor
    """(B,) bool: whether the text was too long and was cut."""


class GraphTokenizer(tf.Module):
    """Tokenizer of one language in the graph.

    Args:
        side: Tokenizer of one language.
        max_tokens: Longest row of ids, END counted; longer texts are cut.
    """

    def __init__(self, side: LanguageTokenizer, max_tokens: int) -> None:
        super().__init__()
        self._tokenizer: Any = side.graph()
        self._spaces = spaces(side)
        self._max_ids = max_tokens - 1

    def encode(self, texts: tf.Tensor) -> Encoded:
        """Encode (B,) string; a blank text is END alone."""
        ids = self._tokenizer.tokenize(texts)  # ragged (B, None)
        cut = tf.cast(ids.row_lengths(), tf.int32) > self._max_ids
        ids = ids[:, : self._max_ids]
        ids = tf.concat([ids, tf.fill([ids.nrows(), 1], END)], axis=1)
        return Encoded(ids.to_tensor(PAD), tf.cast(ids.row_lengths(), tf.int32), cut)

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
