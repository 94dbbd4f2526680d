"""Search set up from a configuration, the same in Python and in an export.

Shapes: B batch, W hypotheses of each sentence, S source length, P prefix length, N hypotheses
returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.inference.search.constraints import Constraints, special_tokens_forbidden
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.inference.search.sampling import Sampling
from keras_transformer.inference.search.step_function import State, Step, Steps
from keras_transformer.inference.search.strategies import beam_search, length_limits, sample

Start = Callable[[tf.Tensor, int], tuple[Step | Steps, State]]
"""``start(source (B, S) int32, W) -> (step function, state before START)``."""


def width(search: SearchConfig) -> int:
    """Return W, the rows of each sentence in every step."""
    return search.n_best if search.sample else search.beam


def generate(
    start: Start,
    source: tf.Tensor,
    search: SearchConfig,
    *,
    seeds: tf.Tensor | None = None,
    prefix: tf.Tensor | None = None,
    alpha: tf.Tensor | None = None,
    max_extra: tf.Tensor | None = None,
    required: tf.Tensor | None = None,
    forbidden: Sequence[int] | None = None,
    source_end: bool = True,
) -> Hypotheses:
    """Translate a batch with the configured search: beam search, greedy search or sampling.

    Several hypotheses may have the same text, because it can be segmented in several ways. So a
    beam search for more than one returns twice as many, from which the module ``n_best`` selects
    distinct texts.

    Args:
        start: Encodes the source and prepares decoding, such as ``DecodingModel.start``.
        source: (B, S) int32, rows of ``special_tokens.source_tokens``, padded.
        search: The strategy and its options.
        seeds: (B, 2) int32; sampling needs them.
        prefix: (B, P) int32, the first tokens of each translation, padded; None: no prefix.
        alpha: (B,) float32 in place of ``search.alpha``.
        max_extra: (B,) int32 in place of ``search.max_extra``.
        required: () int32, the number of best hypotheses that must equal those of a search
            without early stop; None: ``search.n_best``.
        forbidden: Ids that are never generated, from ``forbidden_tokens``; None: the special
            tokens, if ``search`` has no others.
        source_end: ``data.source_end``: whether each source ends in END.

    Returns:
        N hypotheses for each sentence, best first: ``search.n_best`` samples, 1, or
        ``2 * search.n_best``.

    Raises:
        ValueError: Sampling without seeds, or ``search.suppress`` without its ids.
    """
    constraints = Constraints(
        forbidden=_forbidden(search) if forbidden is None else tuple(forbidden),
        min_length=search.min_length,
        no_repeat_ngram=search.no_repeat_ngram,
        prefix=prefix,
    )
    step, state = start(source, width(search))
    limits = length_limits(
        source,
        search.max_extra if max_extra is None else max_extra,
        max_factor=search.max_factor,
        max_length=search.max_length,
        source_end=source_end,
    )
    alpha = search.alpha if alpha is None else alpha
    if search.sample:
        if seeds is None:
            raise ValueError("seeds: expected (B, 2) int32 for sampling, got None")
        return sample(
            step,
            state,
            limits,
            seeds,
            sampling=Sampling(search.temperature, search.top_k, search.top_p),
            alpha=alpha,
            length_penalty=search.length_penalty,
            samples=search.n_best,
            constraints=constraints,
        )
    return beam_search(
        step,
        state,
        limits,
        beam=search.beam,
        alpha=alpha,
        length_penalty=search.length_penalty,
        n_best=search.n_best,
        spare=search.n_best if search.n_best > 1 else 0,
        required=required,
        constraints=constraints,
    )


def _forbidden(search: SearchConfig) -> tuple[int, ...]:
    if search.suppress:
        raise ValueError("forbidden: expected ids, those of search.suppress among them, got None")
    return special_tokens_forbidden(search.allow_unknown)
