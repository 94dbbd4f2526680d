"""A scripted model with known probabilities, and a small random model with a tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DataConfig, ModelConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.model import transformer
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

KEYS = 10_007
SPECIALS = {PAD, UNKNOWN, START}

SENTENCES = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines() * 5
ENGLISH, GERMAN = map(list, zip(*(line.split("\t") for line in SENTENCES), strict=True))


class Scripted:
    """A model whose next-token logits are a table row that depends on the whole prefix.

    The key of a prefix is a polynomial in its tokens, so that a wrong reordering of the state
    shows at once. The state also carries the prefix itself, as a growing cache.
    """

    def __init__(self, seed: int, vocabulary: int, spread: float = 2.0, end_bias: float = 0.0):
        table = np.random.default_rng(seed).normal(0.0, spread, (KEYS, vocabulary))
        table[:, END] += end_bias
        self.table = table.astype(np.float32)
        self.vocabulary = vocabulary

    def start(self, keys: list[int], beam: int) -> dict[str, tf.Tensor]:
        rows = tf.repeat(tf.constant(keys, tf.int64), beam)
        return {"key": rows, "prefix": tf.zeros([len(keys) * beam, 0], tf.int64)}

    def step(self, tokens, position, state):
        key = (state["key"] * 31 + tokens * 7 + 3) % KEYS
        prefix = tf.concat([state["prefix"], tokens[:, None]], 1)
        tf.debugging.assert_equal(tf.shape(prefix)[1], position + 1)
        return tf.gather(self.table, key), {"key": key, "prefix": prefix}

    def log_probabilities(self, key: int, prefix: tuple[int, ...]) -> np.ndarray:
        """Return log P(next | START, prefix), (V,) float64."""
        for token in (START, *prefix):
            key = (key * 31 + token * 7 + 3) % KEYS
        logits = self.table[key].astype(np.float64)
        return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()

    def forced(self, key: int, tokens: tuple[int, ...]) -> float:
        return sum(self.log_probabilities(key, tokens[:i])[t] for i, t in enumerate(tokens))

    def allowed(self) -> list[int]:
        return [token for token in range(self.vocabulary) if token not in SPECIALS]


@pytest.fixture(scope="session")
def scripted() -> type[Scripted]:
    """Return the class of scripted models."""
    return Scripted


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(ENGLISH, GERMAN, DataConfig(vocabulary_size=400, joint=False))


@pytest.fixture(scope="session")
def model(tokenizer, talkative):
    config = ModelConfig(
        source_vocabulary_size=tokenizer.source.size,
        target_vocabulary_size=tokenizer.target.size,
        encoder_layers=1,
        decoder_layers=2,
        d_model=16,
        heads=2,
        d_ff=32,
        embeddings="untied",
    )
    return talkative(transformer.build(config))
