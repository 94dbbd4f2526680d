"""Search over real models of every option: forced scores, and no effect of the batch."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.config import ModelConfig
from keras_transformer.inference.search import strategies
from keras_transformer.inference.search.constraints import Constraints
from keras_transformer.inference.search.sampling import Sampling
from keras_transformer.inference.search.scoring import forced_log_probabilities
from keras_transformer.model import transformer
from keras_transformer.model.incremental.factory import incremental_decoder
from keras_transformer.special_tokens import END, PAD, START

OPTIONS = [
    {"norm": norm, "positions": positions}
    for norm in ("post", "pre")
    for positions in ("sinusoidal", "learned", "rotary", "alibi", "none")
]
OPTIONS.append({"architecture": "recurrent"})
# The paper's, and one of each other kind: Pre-LN, rotary, ALiBi.
QUICK = [OPTIONS[place] for place in (0, 2, 8)]


def quick_or_slow(options, *values):
    """Return a test's parameters, marked as slow unless the options are among the quick ones."""
    marks = [] if options in QUICK else [pytest.mark.slow]
    return pytest.param(options, *values, marks=marks)


def random_model(seed: int, **options):
    of_transformer = {} if "architecture" in options else {"heads": 2, "d_ff": 32}
    config = ModelConfig(
        source_vocabulary_size=20,
        target_vocabulary_size=9,  # so few that END often wins
        encoder_layers=1,
        decoder_layers=2,
        d_model=16,
        embeddings="untied",
        **of_transformer,
        **options,
    )
    model = transformer.build(config)
    random = np.random.default_rng(seed)
    for weight in model.weights:
        offset = random.normal(0.0, 0.6, weight.shape)
        # Gains and biases keep their 1 and 0; random initial matrices must not count.
        weight.assign(weight + offset if len(weight.shape) == 1 else offset)
    return model


def translator(model, beam):
    """Return a compiled function from source ids (B, S) to hypotheses."""
    decoder = incremental_decoder(model)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def translate(source):
        step, state = decoder.start(source, beam)
        limits = strategies.length_limits(source, 5)
        return strategies.beam_search(step, state, limits, beam=beam, alpha=0.6, n_best=beam)

    return translate


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ({"positions": "sinusoidal"}, 1),
        ({"positions": "rotary"}, 3),
        ({"positions": "alibi"}, 3),
        pytest.param({"architecture": "recurrent"}, 3, marks=pytest.mark.slow),
    ],
)
def test_long_outputs_have_their_forced_scores(options, width):
    # Long enough for the caches to be resized and compacted several times.
    model = random_model(5, **options)
    decoder = incremental_decoder(model)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def translate(source):
        step, state = decoder.start(source, width)
        limits = tf.constant([90, 20, 110, 110])
        return strategies.beam_search(
            step,
            state,
            limits,
            beam=width,
            alpha=0.6,
            constraints=Constraints(min_length=100),
        )

    source = padded(sources(2), 8)
    hypotheses = translate(source)
    assert hypotheses.lengths[:2, 0].numpy().tolist() == [90, 20]
    assert hypotheses.lengths.numpy()[2:].min() > 100
    labels = hypotheses.tokens[:, 0]
    target = tf.concat([tf.fill([4, 1], START), labels[:, :-1]], 1)
    forced = forced_log_probabilities(model({"source": source, "target": target}), labels)
    np.testing.assert_allclose(
        hypotheses.log_probabilities[:, 0], tf.reduce_sum(forced, 1), rtol=1e-4, atol=1e-4
    )


def sources(seed: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [[*random.integers(4, 20, length).tolist(), END] for length in (5, 1, 3, 7)]


def padded(rows: list[list[int]], width: int) -> tf.Tensor:
    return tf.constant([row + [PAD] * (width - len(row)) for row in rows])


@pytest.mark.parametrize(
    ("options", "beam"),
    [quick_or_slow(options, 4) for options in OPTIONS] + [(QUICK[0], 1)],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else f"beam{value}",
)
def test_scores_equal_forced_scores_and_batches_do_not_matter(options, beam):
    model = random_model(3, **options)
    rows = sources(11)
    source = padded(rows, 10)  # more padding than needed
    translate = translator(model, beam)
    hypotheses = translate(source)
    tokens = hypotheses.tokens.numpy()
    for place in range(beam):
        labels = tf.constant(tokens[:, place])
        target = tf.concat([tf.fill([len(rows), 1], START), labels[:, :-1]], 1)
        logits = model({"source": source, "target": target})
        forced = tf.reduce_sum(forced_log_probabilities(logits, labels), 1)
        np.testing.assert_allclose(
            hypotheses.log_probabilities[:, place].numpy(), forced.numpy(), rtol=1e-4, atol=1e-4
        )
    assert len(set(hypotheses.scores[:, 0].numpy().round(4))) == len(rows), "the source must matter"
    for sentence, row in enumerate(rows):
        alone = translate(padded([row], len(row)))
        width = alone.tokens.shape[-1]
        assert tokens[sentence, :, :width].tolist() == alone.tokens[0].numpy().tolist()
        assert not tokens[sentence, :, width:].any()
        np.testing.assert_allclose(
            hypotheses.scores[sentence], alone.scores[0], rtol=1e-5, atol=1e-5
        )


@functools.cache
def sampler(**options: str):
    """Return a model with these options, and a compiled function that samples from it."""
    model = random_model(5, **options)
    decoder = incremental_decoder(model)
    ids = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[ids, ids], autograph=False)
    def translate(source, prefix):
        step, state = decoder.start(source, 2)
        return strategies.sample(
            step,
            state,
            strategies.length_limits(source, 5),
            source[:, :2],  # any numbers will do as seeds
            sampling=Sampling(temperature=0.8, top_p=0.95),
            samples=2,
            alpha=0.6,
            constraints=Constraints(min_length=3, no_repeat_ngram=3, prefix=prefix),
        )

    return model, translate


def check_samples(options, rows, prefixes, order, more) -> None:
    """Check forced scores, constraints, and each sentence alone against the batch."""
    model, translate = sampler(**options)
    rows, prefixes = [rows[place] for place in order], [prefixes[place] for place in order]
    width = max(map(len, prefixes))
    source = padded(rows, max(map(len, rows)) + more)
    hypotheses = translate(
        source, tf.constant([own + [PAD] * (width - len(own)) for own in prefixes])
    )
    for place in range(2):
        labels = hypotheses.tokens[:, place]
        target = tf.concat([tf.fill([len(rows), 1], START), labels[:, :-1]], 1)
        logits = model({"source": source, "target": target})
        forced = tf.reduce_sum(forced_log_probabilities(logits, labels), 1)
        np.testing.assert_allclose(
            hypotheses.log_probabilities[:, place], forced, rtol=1e-4, atol=1e-4
        )
    for sentence, (row, prefix) in enumerate(zip(rows, prefixes, strict=True)):
        alone = translate(padded([row], len(row)), tf.constant([prefix]))
        np.testing.assert_array_equal(alone.lengths[0], hypotheses.lengths[sentence])
        for place, length in enumerate(alone.lengths[0].numpy()):
            own = hypotheses.tokens[sentence, place, :length].numpy().tolist()
            assert own == alone.tokens[0, place, :length].numpy().tolist()
            assert own[: len(prefix)] == prefix
            assert length > min(3, len(row) + 3)
            grams = [tuple(own[first : first + 3]) for first in range(length - 2)]
            assert len(set(grams)) == len(grams)
        np.testing.assert_allclose(
            alone.scores[0], hypotheses.scores[sentence], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize(
    "options",
    [quick_or_slow(options) for options in OPTIONS],
    ids=lambda options: "-".join(options.values()),
)
def test_constrained_samples_of_every_kind_of_model(options):
    check_samples(options, sources(4), [[4], [5, 6], [8, 8], [7]], [2, 0, 3, 1], more=3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    options=st.sampled_from(OPTIONS),
    seed=st.integers(0, 10**6),
    prefixes=st.lists(st.lists(st.integers(4, 8), min_size=1, max_size=2), min_size=4, max_size=4),
    order=st.permutations(range(4)),
    more=st.integers(0, 6),
)
def test_samples_do_not_depend_on_the_batch(options, seed, prefixes, order, more):
    check_samples(options, sources(seed), prefixes, order, more)
