"""Decoding strategies: beam search, greedy search and sampling over a step function.

Search sees no model, only ``step(tokens (R,), position, state) -> (logits (R, V), state)``
with R = B * W rows, hypothesis w of sentence b in row b * W + w. All strategies are TensorFlow
loops: they run eagerly, inside ``tf.function`` and from a SavedModel, with batch and length
unknown when traced, and without any XLA operation.

The score of a hypothesis is log P divided by the length penalty, END counted. P is the model's
probability: neither constraints nor temperature change it.

Shapes: B batch, W hypotheses of each sentence, R rows (B * W), V vocabulary, S source length,
N hypotheses returned.
"""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.config import LengthPenalty
from keras_transformer.config.search import FACTOR_STEPS, factor_steps
from keras_transformer.inference.search import decoding_loop
from keras_transformer.inference.search.autoregressive import AutoregressiveSearch, GreedySelector
from keras_transformer.inference.search.beam import BeamSearch
from keras_transformer.inference.search.constraints import Constraints
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.inference.search.sampling import (
    Sampling,
    SamplingSelector,
    sample_seeds,
    sort_samples,
)
from keras_transformer.inference.search.step_function import State, Step, Steps, as_steps
from keras_transformer.special_tokens import END, PAD, START

_NO_CONSTRAINTS = Constraints()
_MODEL_DISTRIBUTION = Sampling()


def length_limits(
    source: tf.Tensor,
    max_extra: tf.Tensor | int,
    *,
    max_factor: float = 1.0,
    max_length: int = 0,
    source_end: bool = True,
) -> tf.Tensor:
    """Return the limits of output length, as ``SearchConfig.length_limit``.

    By default they are the paper's (section 6.1): source length + ``max_extra``. Source length
    counts neither END nor padding; output length counts END, so that no output is longer than
    its source by more than ``max_extra`` tokens.

    Args:
        source: (B, S) int32, rows of ``special_tokens.source_tokens``, padded.
        max_extra: Tokens; a number, or (B,) int32.
        max_factor: Factor of the source length, rounded to a millionth.
        max_length: Greatest limit; 0: none.
        source_end: Whether each source ends in END; otherwise only empty ones do.

    Returns:
        (B,) int32: most tokens of each output, END counted.
    """
    if source_end:
        tokens = tf.reduce_sum(tf.cast(source != PAD, tf.int32), axis=1) - 1
    else:
        real = (source != PAD) & (source != END)
        tokens = tf.reduce_sum(tf.cast(real, tf.int32), axis=1)
    if max_factor == 1.0:
        limits = tokens + max_extra
    else:
        scaled = tf.cast(tokens, tf.int64) * factor_steps(max_factor) // FACTOR_STEPS
        limits = tf.maximum(tf.cast(scaled, tf.int32) + max_extra, 1)
    return tf.minimum(limits, max_length) if max_length else limits


def beam_search(
    step: Step | Steps,
    state: State,
    limits: tf.Tensor,
    *,
    beam: int,
    alpha: tf.Tensor | float,
    length_penalty: LengthPenalty = "gnmt",
    n_best: int = 1,
    spare: int = 0,
    required: tf.Tensor | int | None = None,
    constraints: Constraints = _NO_CONSTRAINTS,
    start: int = START,
    end: int = END,
) -> Hypotheses:
    """Return the best hypotheses of a beam search (section 6.1).

    A sentence stops as soon as no live hypothesis can enter its ``required`` best finished
    ones, which does not change these. Its hypotheses do not depend on the rest of the batch.

    Args:
        step: Next-token logits of R = B * beam rows, and the state after the tokens.
        state: The state before START; tensors whose leading dimension is R.
        limits: (B,) int32, most tokens of a hypothesis, END counted.
        beam: W, live hypotheses of each sentence; 1 is greedy search.
        alpha: Strength of the length penalty, 0 or more; a number, or (B,) float32.
        length_penalty: Its form; see ``scoring.length_penalty``.
        n_best: Best hypotheses returned for each sentence.
        spare: Further hypotheses to return, of those that have finished when the search stops.
            They cost no step; a beam of 1 has none.
        required: The number of best hypotheses that must equal those of a search without
            early stop; None: ``n_best``. As a tensor it lets one graph serve callers that need
            only the best and callers that need several.
        constraints: Constraints on the next token; default: no ``FORBIDDEN`` token.
        start: The token that begins each hypothesis.
        end: The token that finishes a hypothesis.

    Returns:
        N = ``n_best + spare`` hypotheses for each sentence, best first. Hypotheses that
        reached the limit without END fill places that finished ones leave empty.

    Raises:
        ValueError: ``beam``, ``n_best`` or ``alpha`` is out of range.
    """
    if beam < 1:
        raise ValueError(f"beam: expected 1 or more, got {beam}")
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best: expected 1 to beam ({beam}), got {n_best}")
    if beam == 1:
        return greedy(
            step,
            state,
            limits,
            alpha=alpha,
            length_penalty=length_penalty,
            constraints=constraints,
            start=start,
            end=end,
        )
    search = BeamSearch(
        steps=as_steps(step, beam),
        limits=tf.cast(limits, tf.int64),
        beam=beam,
        alpha=_per_sentence(alpha, limits),
        form=length_penalty,
        size=n_best + spare,
        required=tf.convert_to_tensor(n_best if required is None else required),
        start=start,
        end=end,
        constraints=constraints.bind(limits, beam, end),
    )
    return decoding_loop.run(search, state, tf.shape(limits)[0], search.size)


def greedy(
    step: Step | Steps,
    state: State,
    limits: tf.Tensor,
    *,
    alpha: tf.Tensor | float = 0.0,
    length_penalty: LengthPenalty = "gnmt",
    constraints: Constraints = _NO_CONSTRAINTS,
    start: int = START,
    end: int = END,
) -> Hypotheses:
    """Select the most probable token at each step.

    Cheaper than a general beam of width 1: there is nothing to reorder, and no alternative to
    END to keep alive.

    Args:
        step: Next-token logits of R = B rows, and the state after the tokens.
        state: The state before START; tensors whose leading dimension is B.
        limits: (B,) int32, most tokens of a hypothesis, END counted.
        alpha: Strength of the length penalty in the score, a number or (B,) float32; it
            changes no token.
        length_penalty: Its form; see ``scoring.length_penalty``.
        constraints: Constraints on the next token; default: no ``FORBIDDEN`` token.
        start: The token that begins each hypothesis.
        end: The token that finishes a hypothesis.

    Returns:
        One hypothesis for each sentence (N = 1).

    Raises:
        ValueError: ``alpha`` is below 0.
    """
    search = AutoregressiveSearch(
        steps=as_steps(step, 1),
        next_token=GreedySelector(constraints.bind(limits, 1, end)),
        limits=tf.cast(limits, tf.int64),
        alpha=_per_sentence(alpha, limits),
        form=length_penalty,
        start=start,
        end=end,
        width=1,
    )
    return decoding_loop.run(search, state, tf.shape(limits)[0], 1)


def sample(
    step: Step | Steps,
    state: State,
    limits: tf.Tensor,
    seeds: tf.Tensor,
    *,
    sampling: Sampling = _MODEL_DISTRIBUTION,
    alpha: tf.Tensor | float = 0.0,
    length_penalty: LengthPenalty = "gnmt",
    samples: int = 1,
    constraints: Constraints = _NO_CONSTRAINTS,
    start: int = START,
    end: int = END,
) -> Hypotheses:
    """Sample hypotheses token by token.

    The samples of a sentence depend on its seed, not on its batch; equal seeds give equal
    random numbers. The first of several samples equals the only one of a single sample.

    Args:
        step: Next-token logits of R = B * samples rows, and the state after the tokens.
        state: The state before START; tensors whose leading dimension is R.
        limits: (B,) int32, most tokens of a hypothesis, END counted.
        seeds: (B, 2) int32.
        sampling: The sampling distribution; default: the model's.
        alpha: Strength of the length penalty in the score, a number or (B,) float32.
        length_penalty: Its form; see ``scoring.length_penalty``.
        samples: Independent samples of each sentence; some may be equal.
        constraints: Constraints on the next token; default: no ``FORBIDDEN`` token.
        start: The token that begins each hypothesis.
        end: The token that finishes a hypothesis.

    Returns:
        N = ``samples`` hypotheses for each sentence, finished ones first, then by score.

    Raises:
        ValueError: ``samples`` or ``alpha`` is out of range.
    """
    if samples < 1:
        raise ValueError(f"samples: expected 1 or more, got {samples}")
    search = AutoregressiveSearch(
        steps=as_steps(step, samples),
        next_token=SamplingSelector(
            sampling, constraints.bind(limits, samples, end), sample_seeds(seeds, samples)
        ),
        limits=tf.cast(tf.repeat(limits, samples), tf.int64),
        alpha=tf.repeat(_per_sentence(alpha, limits), samples),
        form=length_penalty,
        start=start,
        end=end,
        width=samples,
    )
    return sort_samples(decoding_loop.run(search, state, tf.shape(limits)[0], samples))


def _per_sentence(alpha: tf.Tensor | float, limits: tf.Tensor) -> tf.Tensor:
    """Return ``alpha`` as (B,) float32."""
    if isinstance(alpha, (int, float)) and alpha < 0:
        raise ValueError(f"alpha: expected 0 or more, got {alpha}")
    return tf.broadcast_to(tf.cast(alpha, tf.float32), tf.shape(limits))
