"""Search over real models of every option: scores, caches and batches agree."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.data.tokenizer import END, PAD, START
from keras_transformer.inference import search
from keras_transformer.model import transformer
from keras_transformer.model.decoding import Decoding

OPTIONS = [
    {"norm": norm, "positions": positions}
    for norm in ("post", "pre")
    for positions in ("sinusoidal", "learned", "rotary", "alibi", "none")
]


def random_model(seed: int, **options):
    config = ModelConfig(
        source_vocabulary=20,
        target_vocabulary=9,  # so few that END often wins
        encoder_layers=1,
        decoder_layers=2,
        d_model=16,
        heads=2,
        d_ff=32,
        embeddings="untied",
        **options,
    )
    model = transformer.build(config)
    random = np.random.default_rng(seed)
    for weight in model.weights:
        noise = random.normal(0.0, 0.6, weight.shape)
        # Gains and biases start from 1 and 0; matrices start at random, which must not count.
        weight.assign(weight + noise if len(weight.shape) == 1 else noise)
    return model


def translator(model, beam):
    """(B, S) source ids to hypotheses, as one graph."""
    decoding = Decoding(model)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def translate(source):
        step, state = decoding.start(source, beam)
        limits = search.length_limits(source, 5)
        return search.beam_search(step, state, limits, beam=beam, alpha=0.6, n_best=beam)

    return translate


def sources(seed: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [[*random.integers(4, 20, length).tolist(), END] for length in (5, 1, 3, 7)]


def padded(rows: list[list[int]], width: int) -> tf.Tensor:
    return tf.constant([row + [PAD] * (width - len(row)) for row in rows])


@pytest.mark.parametrize(
    ("options", "beam"),
    [(options, 4) for options in OPTIONS] + [(options, 1) for options in OPTIONS[::5]],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else f"beam{value}",
)
def test_scores_equal_forced_scores_and_batches_do_not_matter(options, beam):
    model = random_model(3, **options)
    rows = sources(11)
    source = padded(rows, 10)  # more padding than needed
    translate = translator(model, beam)
    found = translate(source)
    tokens = found.tokens.numpy()
    for place in range(beam):
        labels = tf.constant(tokens[:, place])
        target = tf.concat([tf.fill([len(rows), 1], START), labels[:, :-1]], 1)
        logits = model({"source": source, "target": target})
        forced = tf.reduce_sum(search.forced_log_probabilities(logits, labels), 1)
        np.testing.assert_allclose(
            found.log_probabilities[:, place].numpy(), forced.numpy(), rtol=1e-4, atol=1e-4
        )
    assert len(set(found.scores[:, 0].numpy().round(3))) == len(rows), "the source must matter"
    for sentence, row in enumerate(rows):
        alone = translate(padded([row], len(row)))
        width = alone.tokens.shape[-1]
        assert tokens[sentence, :, :width].tolist() == alone.tokens[0].numpy().tolist()
        assert not tokens[sentence, :, width:].any()
        np.testing.assert_allclose(found.scores[sentence], alone.scores[0], rtol=1e-5, atol=1e-5)
