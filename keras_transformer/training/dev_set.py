"""Scores on the dev set during training: loss, perplexity and BLEU."""

from __future__ import annotations

import dataclasses
import itertools
import math
import signal
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import Config, SearchConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batches import dataset
from keras_transformer.data.prepared import Prepared
from keras_transformer.evaluation.metrics import bleu
from keras_transformer.evaluation.tokenization import Tokenization, choose_tokenization
from keras_transformer.inference.alignment import Attention
from keras_transformer.inference.translator import Translator
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.scores import Example, Scores, perplexity
from keras_transformer.training.state import TrainingState
from keras_transformer.training.stopping import Stopped, check_signal

MAX_BATCH_TOKENS = 16_384
"""Greatest number of target tokens in a batch of the dev loss."""


class DevSet:
    """The held-out pairs of a run, scored with the current weights of its model.

    Scoring uses one device, even if training uses several devices or workers.

    Args:
        model: The model in training, a `TranslationModel`.
        prepared: The data of the run.
        config: The configuration of the run.

    Attributes:
        tokenization: The units in which ``dev_bleu`` compares translations and references;
            None without ``train.dev_sentences``.
    """

    def __init__(self, model: keras.Model, prepared: Prepared, config: Config) -> None:
        self._store = prepared.dev
        self._plan = BatchPlan(
            prepared.dev.source_lengths,
            prepared.dev.target_lengths,
            min(config.train.micro_batch_tokens or config.train.batch_tokens, MAX_BATCH_TOKENS),
            config.train.seed,
        )
        pairs = prepared.dev_pairs[: config.train.dev_sentences]
        self._sources = [pair.source for pair in pairs]
        self._references = [pair.target for pair in pairs]
        self.tokenization: Tokenization | None = None
        if self._sources:
            self.tokenization = choose_tokenization(
                config.data.target, self._references, config.train.bleu_tokenizer
            )
        limits = ("max_extra", "max_factor", "max_length", "allow_unknown", "suppress")
        search = SearchConfig(beam=1, **{name: getattr(config.search, name) for name in limits})
        # A long dev sentence must not end the training; `prepared.dev` is cut too.
        data = dataclasses.replace(config.data, on_long="cut")
        self._translator = Translator(model, prepared.tokenizer, search, data)

        ids = tf.TensorSpec((None, None), tf.int32)

        @tf.function(input_signature=[{"source": ids, "target": ids}, ids], autograph=False)
        def sums(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
            return tf.stack(model.token_loss(inputs, labels, training=False))

        self._sums = sums

    @property
    def sentences(self) -> int:
        """Number of sentences that are translated for BLEU."""
        return len(self._sources)

    def evaluate(self, after_batch: Callable[[], None] = lambda: None) -> tuple[Scores, list[str]]:
        """Score the current weights.

        Args:
            after_batch: Called after each batch; an exception that it raises ends the evaluation.

        Returns:
            The scores, and the translations behind ``dev_bleu``. Without
            ``train.dev_sentences`` there is neither BLEU nor a translation.
        """
        scores = self.loss(after_batch)
        if self.tokenization is None:
            return scores, []
        found = self._translator.translate(self._sources, progress=lambda count: after_batch())
        translations = [item.text for item in found]
        scores["dev_bleu"] = bleu(translations, [self._references], self.tokenization.name)
        return scores, translations

    def loss(self, after_batch: Callable[[], None] = lambda: None) -> Scores:
        """Return the loss and the perplexity of the current weights.

        Args:
            after_batch: As for `evaluate`.
        """
        total = np.zeros(3)
        for inputs, labels in dataset(self._store, self._plan, repeat=False):
            total += self._sums(inputs, labels).numpy()
            after_batch()
        loss, log_loss, tokens = total
        return {
            "dev_loss": float(loss / tokens),
            "dev_perplexity": perplexity(float(log_loss / tokens)),
        }

    def examples(self, translations: list[str], count: int) -> list[Example]:
        """Return the first ``count`` sentences with their translations from `evaluate`."""
        columns = zip(self._sources, self._references, translations, strict=False)
        return [Example(*texts) for texts in itertools.islice(columns, count)]

    def attention(self, count: int) -> list[Attention]:
        """Return the cross-attention of the first ``count`` sentences without blank ones."""
        found = self._translator.translate(self._sources[:count], attention=True)
        return [item.attention for item in found if item.attention]


def evaluate_on_chief(
    dev_set: DevSet, distribution: Distribution, state: TrainingState, seconds: float
) -> tuple[Scores, list[str], float]:
    """Score the weights on the chief and broadcast the scores; every worker calls this.

    Args:
        dev_set: The dev set.
        distribution: The workers.
        state: State of this worker; a stop signal to the chief ends the evaluation.
        seconds: Training time by this worker's clock.

    Returns:
        The scores, the translations (on the chief only), and the training time by the chief's
        clock.

    Raises:
        Stopped: The chief has received a stop signal.
    """
    names = ["dev_loss", "dev_perplexity", *["dev_bleu"] * bool(dev_set.sentences)]
    scores: Scores = {}
    translations: list[str] = []
    stopped = None
    if distribution.chief:
        try:
            scores, translations = dev_set.evaluate(lambda: check_signal(state))
        except Stopped as stop:
            stopped = stop
    values = [scores.get(name, math.nan) for name in names]
    *values, seconds, interrupted = distribution.broadcast_from_chief(
        [*values, seconds, float(stopped is not None)]
    )
    if interrupted:
        raise stopped or Stopped(signal.SIGTERM)
    return dict(zip(names, values, strict=True)), translations, seconds
