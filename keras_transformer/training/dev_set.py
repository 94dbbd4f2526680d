"""How good the weights are now: loss and BLEU on the dev set."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import Config, SearchConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batches import dataset
from keras_transformer.data.prepared import Prepared
from keras_transformer.evaluation.metrics import bleu
from keras_transformer.inference.alignment import Attention
from keras_transformer.inference.translator import Translator
from keras_transformer.training.reporting.progress import perplexity

Scores = dict[str, float]
MOST_TOKENS = 16_384
"""Target tokens in a batch of the loss, at most; one device holds them all."""


class Example(NamedTuple):
    """A dev sentence."""

    source: str
    reference: str
    translation: str


class DevSet:
    """The held-out pairs of a run, and the network that is judged by them.

    One device looks at them, whatever the devices and workers of the training are.

    Args:
        model: The network in training; its weights of the moment count.
        prepared: The data of the run.
        config: Its configuration.
    """

    def __init__(self, model: keras.Model, prepared: Prepared, config: Config) -> None:
        self._store = prepared.dev
        self._plan = BatchPlan(
            prepared.dev.source_lengths,
            prepared.dev.target_lengths,
            min(config.train.micro_batch_tokens or config.train.batch_tokens, MOST_TOKENS),
            config.train.seed,
        )
        self._language = config.data.target
        pairs = prepared.dev_pairs[: config.train.dev_sentences]
        self._sources = [pair.source for pair in pairs]
        self._references = [pair.target for pair in pairs]
        search = SearchConfig(beam=1, max_extra=config.search.max_extra)
        # A dev sentence that is too long must not end a training; its pair is cut as well.
        data = dataclasses.replace(config.data, on_long="cut")
        self._translator = Translator(model, prepared.tokenizer, search, data)

        ids = tf.TensorSpec((None, None), tf.int32)

        @tf.function(input_signature=[{"source": ids, "target": ids}, ids], autograph=False)
        def sums(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
            return tf.stack(model.token_loss(inputs, labels, training=False))

        self._sums = sums

    def evaluate(self, between: Callable[[], None] = lambda: None) -> tuple[Scores, list[str]]:
        """Measure.

        Args:
            between: Called after each batch; what it raises ends the evaluation.

        Returns:
            ``dev_loss``, ``dev_perplexity`` and, where sentences are translated,
            ``dev_bleu``; and the translations.
        """
        total = np.zeros(3)
        for inputs, labels in dataset(self._store, self._plan, repeat=False):
            total += self._sums(inputs, labels).numpy()
            between()
        loss, log_loss, tokens = total
        scores = {
            "dev_loss": float(loss / tokens),
            "dev_perplexity": perplexity(float(log_loss / tokens)),
        }
        if not self._sources:
            return scores, []
        found = self._translator.translate(self._sources, progress=lambda count: between())
        translations = [item.text for item in found]
        scores["dev_bleu"] = bleu(translations, [self._references], self._language)
        return scores, translations

    def examples(self, translations: list[str], count: int) -> list[Example]:
        """The first sentences beside their translations, from `evaluate`."""
        together = zip(self._sources, self._references, translations, strict=False)
        return [Example(*texts) for texts in itertools.islice(together, count)]

    def attention(self, count: int) -> list[Attention]:
        """Where the network looks as it translates the first sentences; blank ones give none."""
        found = self._translator.translate(self._sources[:count], attention=True)
        return [item.attention for item in found if item.attention]


def selection_score(scores: Scores, by: str = "bleu") -> float:
    """What the best weights have most of: BLEU, or the negative loss.

    Args:
        scores: From `DevSet.evaluate`.
        by: "bleu", which stands for the loss where nothing is translated, or "loss".
    """
    return scores["dev_bleu"] if by == "bleu" and "dev_bleu" in scores else -scores["dev_loss"]


def format_scores(scores: Scores) -> str:
    """The scores for people."""
    names = {"dev_loss": "dev loss", "dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}
    return ", ".join(f"{names[name]} {value:.2f}" for name, value in scores.items())
