"""Constraints on the tokens of a translation, the same for every search.

Each constraint reads the tokens so far and bans tokens from coming next. No constraint changes
a probability: see ``candidates``.

Shapes: B batch, P prefix length, W hypotheses of each sentence, R rows (B * W), T tokens so
far, START counted, V vocabulary, J banned ids of a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from keras_transformer.inference.search.candidates import NO_TOKEN, Candidates, next_tokens
from keras_transformer.special_tokens import PAD, START, UNKNOWN

FORBIDDEN = (PAD, UNKNOWN, START)
"""Tokens that are never part of a translation, unless the unknown token is allowed."""


def special_tokens_forbidden(allow_unknown: bool) -> tuple[int, ...]:
    """Return the special tokens that are never part of a translation."""
    return tuple(token for token in FORBIDDEN if token != UNKNOWN or not allow_unknown)


Constraint = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""``constraint(tokens (R, T) int64, position () int32) -> (R, J) int64``: the banned ids of
each row, padded with ``NO_TOKEN``."""


@dataclass(frozen=True)
class Constraints:
    """Constraints on the next token.

    Raises:
        ValueError: ``min_length`` or ``no_repeat_ngram`` is below 0.
    """

    forbidden: tuple[int, ...] = FORBIDDEN
    """Tokens that are never selected."""
    min_length: int = 0
    """Minimum number of tokens before END; at most the length limit of a sentence, less END."""
    no_repeat_ngram: int = 0
    """n-grams of this size occur at most once in a hypothesis; 0 allows repetition."""
    prefix: tf.Tensor | None = None
    """(B, P) int32, the forced first tokens of each sentence, padded. They override the other
    constraints."""

    def __post_init__(self) -> None:
        for name in ("min_length", "no_repeat_ngram"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"{name}: expected 0 or more, got {value}")

    def bind(self, limits: tf.Tensor, width: int, end: int) -> BatchConstraints:
        """Return the constraints of the rows of a batch.

        Args:
            limits: (B,) int32, maximum number of tokens of a hypothesis, END counted.
            width: W, hypotheses of each sentence.
            end: The token that finishes a hypothesis.
        """
        lengths = tf.minimum(self.min_length, limits - 1) if self.min_length else None
        # One column more, which the steps after the prefix read.
        prefix = None if self.prefix is None else tf.pad(self.prefix, [[0, 0], [0, 1]])
        min_lengths, prefix = (
            None if values is None else tf.cast(tf.repeat(values, width, axis=0), tf.int64)
            for values in (lengths, prefix)
        )
        return BatchConstraints(self.forbidden, self.no_repeat_ngram, end, min_lengths, prefix)


@dataclass(frozen=True)
class BatchConstraints:
    """Constraints of the rows of a batch; see ``Constraints.bind``."""

    forbidden: tuple[int, ...]
    no_repeat_ngram: int
    end: int
    min_lengths: tf.Tensor | None
    """(R,) int64, minimum number of tokens before END."""
    prefix: tf.Tensor | None
    """(R, P + 1) int64, the last column ``PAD``."""

    def select(self, rows: tf.Tensor) -> BatchConstraints:
        """Return the constraints of some of the rows, (r,) int32."""
        min_lengths, prefix = (
            None if values is None else tf.gather(values, rows)
            for values in (self.min_lengths, self.prefix)
        )
        return dataclasses.replace(self, min_lengths=min_lengths, prefix=prefix)

    def candidates(
        self,
        logits: tf.Tensor,
        count: int,
        tokens: tf.Tensor,
        position: tf.Tensor,
        order: tf.Tensor | None = None,
    ) -> Candidates:
        """Return the ``count`` best allowed tokens of each row.

        Args:
            logits: (R, V) of any float type.
            count: Allowed tokens wanted.
            tokens: (R, T) int64, the tokens so far, START first.
            position: () int32, tokens so far without START.
            order: (R, V) float32, values to rank tokens by; None: the logits.
        """
        constraints: list[Constraint] = []
        if self.min_lengths is not None:
            constraints.append(no_end_before(self.min_lengths, self.end))
        if self.no_repeat_ngram:
            constraints.append(no_repeat_ngram(self.no_repeat_ngram))
        banned = [constraint(tokens, position) for constraint in constraints]
        return next_tokens(
            logits,
            count,
            self.forbidden,
            banned=tf.concat(banned, 1) if banned else None,
            forced=self._forced(position),
            order=order,
        )

    def _forced(self, position: tf.Tensor) -> tf.Tensor | None:
        """Return the next token of each row's prefix, (R,), ``PAD`` after its end."""
        if self.prefix is None:
            return None
        last = tf.shape(self.prefix)[1] - 1
        return tf.gather(self.prefix, tf.minimum(position, last), axis=1)


def no_end_before(lengths: tf.Tensor, end: int) -> Constraint:
    """Ban END before a minimum number of tokens.

    Args:
        lengths: (R,) int64, minimum number of tokens before END.
        end: The token that finishes a hypothesis.
    """
    lengths = tf.cast(lengths, tf.int64)

    def constraint(tokens: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        banned = tf.where(
            tf.cast(position, tf.int64) < lengths, tf.constant(end, tf.int64), NO_TOKEN
        )
        return banned[:, None]

    return constraint


def no_repeat_ngram(size: int) -> Constraint:
    """Ban tokens that would repeat an n-gram of ``size`` tokens.

    The work grows with the number of n-grams so far times ``size``. As long as ``size`` is above
    the number of tokens, there are no n-grams and no work.
    """

    def constraint(tokens: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        # The last size - 1 tokens begin the next n-gram; compare them with all n-grams so far.
        count = tf.maximum(position + 2 - size, 0)
        followers = tokens[:, size - 1 : size - 1 + count]  # the last token of each n-gram

        def compare(offset: tf.Tensor, repeats: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            last = tokens[:, position + 2 - size + offset]  # (R,)
            same = tokens[:, offset : offset + count] == last[:, None]
            return offset + 1, repeats & same

        _, repeats = tf.while_loop(
            lambda offset, repeats: (offset < size - 1) & (count > 0),
            compare,
            (tf.constant(0), followers != NO_TOKEN),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
        )
        return tf.where(repeats, followers, NO_TOKEN)  # (R, count)

    return constraint
