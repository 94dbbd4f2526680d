"""Word tokenizer as TensorFlow operations.

Shapes: B batch, N tokens of a text, V vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_transformer.compat.tensorflow import static_table
from keras_transformer.special_tokens import PAD, UNKNOWN

SEPARATORS = r"[\t-\r\x1c-\x20" + "\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000" + "]+"
"""The characters at which ``str.split`` splits, as a pattern of TensorFlow's RE2."""


class GraphWords(tf.Module):
    """A list of words in a graph; see `Words`, which agrees with it.

    Args:
        pieces: (V,) words by id, special tokens included.
        texts: (V,) the text of each id, with the space that follows it.
        ids: Id of each word that a text may have; others are unknown.
    """

    def __init__(self, pieces: Sequence[str], texts: Sequence[str], ids: Mapping[str, int]) -> None:
        super().__init__()
        self._pieces = tf.constant([piece.encode() for piece in pieces])
        self._texts = tf.constant([text.encode() for text in texts])
        # TensorFlow merges tables of one name, so the name depends on the contents.
        digest = hashlib.sha256("\n".join(pieces).encode()).hexdigest()[:16]
        self._table = static_table(
            tf.constant([word.encode() for word in ids]),
            tf.constant(list(ids.values()), tf.int32),
            UNKNOWN,
            f"words_{digest}",
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of (B,) string as a ragged int32 tensor (B, N)."""
        words = tf.strings.split(tf.strings.regex_replace(texts, SEPARATORS, " "))  # (B, N)
        return words.with_values(self._table.lookup(words.values))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Return the texts (B,) of a ragged int32 tensor (B, N)."""
        texts = tf.gather(self._texts, ids.to_tensor(PAD))  # (B, N); "" for padding
        return tf.strings.strip(tf.strings.reduce_join(texts, axis=1))

    def id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the word of each id, a string tensor of the same shape."""
        return tf.gather(self._pieces, ids)
