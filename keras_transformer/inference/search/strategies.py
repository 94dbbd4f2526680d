"""Greedy search, beam search, sampling and forced scores over a step function.

Search sees no model: only ``step(tokens (R,), position, state) -> (logits (R, V), state)``
with R = B * W rows, hypothesis w of sentence b in row b * W + w. Everything is plain
TensorFlow in ``tf.while_loop``s, so that it runs eagerly, inside ``tf.function`` and from a
SavedModel, with batch and length unknown when traced, and without any XLA operation.

Whatever the search, a score is log P / ((5 + length) / 6)^alpha, END counted, and P is what
the model itself says: neither rules nor temperature change it.

Shapes: B batch, W beam width, R rows (B * W), V vocabulary, S source length, T target
length, N hypotheses returned, L tokens returned.
"""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.data.tokenizer import END, PAD, START
from keras_transformer.inference.search import decoding_loop, sampling
from keras_transformer.inference.search.autoregressive import AutoregressiveSearch, MostProbable
from keras_transformer.inference.search.beam import Beam
from keras_transformer.inference.search.constraints import FORBIDDEN, Constraints
from keras_transformer.inference.search.hypotheses import Hypotheses, State, Step, Steps, steps_of
from keras_transformer.inference.search.sampling import Draw, Sampling

__all__ = [
    "FORBIDDEN",
    "Constraints",
    "Hypotheses",
    "Sampling",
    "State",
    "Step",
    "Steps",
    "beam_search",
    "forced_log_probabilities",
    "greedy",
    "length_limits",
    "sample",
]

_NO_CONSTRAINTS = Constraints()
_WHOLE = Sampling()


def length_limits(source: tf.Tensor, max_extra: int) -> tf.Tensor:
    """The paper's limit (section 6.1): source length plus ``max_extra``.

    Neither the source's END nor padding counts as source; the END of the output does count,
    so that no output is ever longer than the source by more than ``max_extra``.

    Args:
        source: (B, S) int32, each row ending in END and then PAD.
        max_extra: Tokens that an output may have more than its source.

    Returns:
        (B,) int32: the tokens that each output may have, END counted.
    """
    real = tf.reduce_sum(tf.cast(source != PAD, tf.int32), axis=1)
    return real - 1 + max_extra


def beam_search(
    step: Step | Steps,
    state: State,
    limits: tf.Tensor,
    *,
    beam: int,
    alpha: tf.Tensor | float,
    n_best: int = 1,
    wanted: tf.Tensor | int | None = None,
    constraints: Constraints = _NO_CONSTRAINTS,
    start: int = START,
    end: int = END,
) -> Hypotheses:
    """The best translations that a beam finds (section 6.1).

    A sentence stops as soon as no live hypothesis can enter the ``wanted`` best finished ones,
    which changes nothing in these. What is found for a sentence does not depend on its batch.

    Args:
        step: Next-token logits of R = B * beam rows, and the state after the tokens.
        state: The state before START; tensors whose leading dimension is R.
        limits: (B,) int32, tokens that a hypothesis may have, END counted.
        beam: Live hypotheses kept for each sentence; 1 is greedy search.
        alpha: Strength of the length penalty, 0 or more: a number, or one for each
            sentence, (B,) float32.
        n_best: Hypotheses returned for each sentence.
        wanted: How many of them must be the best that the whole search finds; None: all. A
            tensor lets one graph serve both those who want one and those who want more.
        rules: What may come next; by default anything but ``FORBIDDEN``.
        start: The token that begins each hypothesis.
        end: The token that finishes a hypothesis.

    Returns:
        N = ``n_best`` hypotheses for each sentence, best first. Hypotheses that reached the
        limit without END fill the places that finished ones leave free.

    Raises:
        ValueError: ``beam``, ``n_best`` or ``alpha`` is out of range.
    """
    if beam < 1:
        raise ValueError(f"beam: expected 1 or more, got {beam}")
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best: expected 1 to beam ({beam}), got {n_best}")
    if beam == 1:
        return greedy(
            step, state, limits, alpha=alpha, constraints=constraints, start=start, end=end
        )
    each = _for_each(alpha, limits)
    wanted = tf.convert_to_tensor(n_best if wanted is None else wanted)
    bound = constraints.bind(limits, beam, end)
    steps = steps_of(step, beam)
    search = Beam(steps, limits, beam, each, n_best, wanted, start, end, bound)
    return decoding_loop.run(search, state, tf.shape(limits)[0], n_best)


def greedy(
    step: Step | Steps,
    state: State,
    limits: tf.Tensor,
    *,
    alpha: tf.Tensor | float = 0.0,
    constraints: Constraints = _NO_CONSTRAINTS,
    start: int = START,
    end: int = END,
) -> Hypotheses:
    """The most probable token at each step.

    With one hypothesis there is nothing to reorder and no alternative to keep after END, so
    that this is cheaper than a beam of width 1 and is what that means here.

    Args:
        step: Next-token logits of R = B rows, and the state after the tokens.
        state: The state before START; tensors whose leading dimension is B.
        limits: (B,) int32, tokens that a hypothesis may have, END counted.
        alpha: Strength of the length penalty in the score, a number or (B,) float32; it
            changes no choice.
        rules: What may come next; by default anything but ``FORBIDDEN``.
        start: The token that begins each hypothesis.
        end: The token that finishes a hypothesis.

    Returns:
        One hypothesis for each sentence (N = 1).

    Raises:
        ValueError: ``alpha`` is below 0.
    """
    choose = MostProbable(constraints.bind(limits, 1, end))
    steps = steps_of(step, 1)
    search = AutoregressiveSearch(steps, choose, limits, _for_each(alpha, limits), start, end, 1)
    return decoding_loop.run(search, state, tf.shape(limits)[0], 1)


def sample(
    step: Step | Steps,
    state: State,
    limits: tf.Tensor,
    seeds: tf.Tensor,
    *,
    sampling_from: Sampling = _WHOLE,
    alpha: tf.Tensor | float = 0.0,
    samples: int = 1,
    constraints: Constraints = _NO_CONSTRAINTS,
    start: int = START,
    end: int = END,
) -> Hypotheses:
    """Translations drawn at random, token by token.

    What is drawn for a sentence depends on its seed, and not on its batch; equal seeds draw
    equal random numbers. The first of several samples is the one drawn where one is wanted.

    Args:
        step: Next-token logits of R = B * samples rows, and the state after the tokens.
        state: The state before START; tensors whose leading dimension is R.
        limits: (B,) int32, tokens that a hypothesis may have, END counted.
        seeds: (B, 2) int32.
        sampling_from: The distribution to draw from; by default the model's.
        alpha: Strength of the length penalty in the score, a number or (B,) float32.
        samples: Drawn for each sentence, one apart from the other: equal ones may come.
        rules: What may come next; by default anything but ``FORBIDDEN``.
        start: The token that begins each hypothesis.
        end: The token that finishes a hypothesis.

    Returns:
        N = ``samples`` hypotheses for each sentence, finished ones first, then by score.

    Raises:
        ValueError: ``samples`` or ``alpha`` is out of range.
    """
    if samples < 1:
        raise ValueError(f"samples: expected 1 or more, got {samples}")
    draw = Draw(
        sampling_from, constraints.bind(limits, samples, end), sampling.row_seeds(seeds, samples)
    )
    each, penalties = (tf.repeat(values, samples) for values in (limits, _for_each(alpha, limits)))
    search = AutoregressiveSearch(
        steps_of(step, samples), draw, each, penalties, start, end, samples
    )
    return sampling.grouped(decoding_loop.run(search, state, tf.shape(limits)[0], samples))


def _for_each(alpha: tf.Tensor | float, limits: tf.Tensor) -> tf.Tensor:
    """``alpha`` as (B,) float32."""
    if isinstance(alpha, (int, float)) and alpha < 0:
        raise ValueError(f"alpha: expected 0 or more, got {alpha}")
    return tf.broadcast_to(tf.cast(alpha, tf.float32), tf.shape(limits))


def forced_log_probabilities(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Log-probability of each given token, after the given tokens before it.

    Args:
        logits: (B, T, V) of any float type, from the full forward pass.
        labels: (B, T) int32, the tokens to score, END last and then PAD.

    Returns:
        (B, T) float32, 0 at PAD: a row's sum is log P(tokens | source).
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )
    return tf.where(labels == PAD, 0.0, -losses)
