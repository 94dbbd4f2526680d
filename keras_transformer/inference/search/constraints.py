"""What a translation must and must not contain, whatever the model finds.

Each rule looks at the tokens so far and names the tokens that must not come next; all
searches ask them in one place. No rule changes a probability: see ``candidates``.

Shapes: B batch, P prefix length, R rows (B * N or B * W), T tokens so far, START counted,
V vocabulary, J ids hidden from a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from keras_transformer.data.tokenizer import PAD, START, UNKNOWN
from keras_transformer.inference.search.candidates import NONE, Candidates, next_tokens

FORBIDDEN = (PAD, UNKNOWN, START)
"""Never part of a translation."""

Constraint = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""``rule(tokens (R, T) int32, position () int32) -> (R, J) int32``: ids that must not come
next, ``NONE`` in free places."""


@dataclass(frozen=True)
class Constraints:
    """Which tokens may come next.

    Raises:
        ValueError: ``min_length`` or ``no_repeat`` is below 0.
    """

    forbidden: tuple[int, ...] = FORBIDDEN
    """Tokens that are never chosen."""
    min_length: int = 0
    """Tokens that must stand before END. Where a sentence's limit leaves room for fewer, as
    many as it leaves room for."""
    no_repeat: int = 0
    """No sequence of so many tokens comes twice in a hypothesis; 0 allows all."""
    prefix: tf.Tensor | None = None
    """(B, P) int32, tokens that each sentence begins with, ``PAD`` after them. They are
    forced, against the other rules too."""

    def __post_init__(self) -> None:
        for name in ("min_length", "no_repeat"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"{name}: expected 0 or more, got {value}")

    def bind(self, limits: tf.Tensor, width: int, end: int) -> BatchConstraints:
        """The rules for the rows of a batch.

        Args:
            limits: (B,) int32, tokens that a hypothesis may have, END counted.
            width: Rows of each sentence.
            end: The token that finishes a hypothesis.
        """
        least = tf.minimum(self.min_length, limits - 1) if self.min_length else None
        each = [
            None if values is None else tf.repeat(values, width, axis=0)
            for values in (least, self.prefix)
        ]
        return BatchConstraints(self.forbidden, self.no_repeat, end, *each)


@dataclass(frozen=True)
class BatchConstraints:
    """Rules for the rows of a batch; see ``Constraints.bind``."""

    forbidden: tuple[int, ...]
    no_repeat: int
    end: int
    least: tf.Tensor | None
    """(R,) int32, tokens before END."""
    prefix: tf.Tensor | None
    """(R, P) int32."""

    def of(self, rows: tf.Tensor) -> BatchConstraints:
        """The rules for some of the rows, (r,) int32."""
        least, prefix = (
            None if values is None else tf.gather(values, rows)
            for values in (self.least, self.prefix)
        )
        return dataclasses.replace(self, least=least, prefix=prefix)

    def candidates(
        self,
        logits: tf.Tensor,
        count: int,
        tokens: tf.Tensor,
        position: tf.Tensor,
        order: tf.Tensor | None = None,
    ) -> Candidates:
        """The ``count`` best tokens of each row that the rules allow.

        Args:
            logits: (R, V) of any float type.
            count: Allowed tokens wanted.
            tokens: (R, T) int32, the tokens so far, START first.
            position: () int32, tokens so far without START.
            order: (R, V) float32, by which tokens are the best; else their logits.
        """
        constraints: list[Constraint] = []
        if self.least is not None:
            constraints.append(no_end_before(self.least, self.end))
        if self.no_repeat:
            constraints.append(no_repeat(self.no_repeat))
        hidden = [constraint(tokens, position) for constraint in constraints]
        return next_tokens(
            logits,
            count,
            self.forbidden,
            hidden=tf.concat(hidden, 1) if hidden else None,
            forced=self._forced(position),
            order=order,
        )

    def _forced(self, position: tf.Tensor) -> tf.Tensor | None:
        """(R,): the next token of each row's prefix, ``PAD`` after its end."""
        if self.prefix is None:
            return None
        last = tf.shape(self.prefix)[1]
        return tf.gather(tf.pad(self.prefix, [[0, 0], [0, 1]]), tf.minimum(position, last), axis=1)


def no_end_before(lengths: tf.Tensor, end: int) -> Constraint:
    """END only after so many tokens.

    Args:
        lengths: (R,) int32.
        end: The token that finishes a hypothesis.
    """

    def constraint(tokens: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        return tf.where(position < lengths, end, NONE)[:, None]

    return constraint


def no_repeat(size: int) -> Constraint:
    """Nothing that would end a sequence of ``size`` tokens that is there already."""

    def constraint(tokens: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        # Windows of `size` tokens; the last size - 1 tokens wait for one more.
        windows = tf.maximum(position + 2 - size, 0)
        followers = tokens[:, size - 1 : size - 1 + windows]  # the last token of each window
        repeats = followers != NONE
        for place in range(size - 1):
            own = tokens[:, tf.maximum(position + 2 - size + place, 0)]
            repeats &= tokens[:, place : place + windows] == own[:, None]
        return tf.where(repeats, followers, NONE)  # (R, windows)

    return constraint
