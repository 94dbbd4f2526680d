"""How good the weights are now: loss and BLEU on the dev set."""

from __future__ import annotations

import dataclasses

import keras

from keras_transformer.config import Config, SearchConfig
from keras_transformer.data.batches import BatchPlan, dataset
from keras_transformer.data.prepare import Prepared
from keras_transformer.evaluation.metrics import bleu
from keras_transformer.inference.translator import Translator
from keras_transformer.training.progress import perplexity

Scores = dict[str, float]


class DevSet:
    """The held-out pairs of a run, and the network that is judged by them.

    Args:
        model: The network in training; its weights of the moment count.
        prepared: The data of the run.
        config: Its configuration.
        plan: The batches in which the loss is measured.
    """

    def __init__(
        self, model: keras.Model, prepared: Prepared, config: Config, plan: BatchPlan
    ) -> None:
        self._model = model
        self._store = prepared.dev
        self._plan = plan
        self._language = config.data.target
        pairs = prepared.dev_pairs[: config.train.dev_sentences]
        self._sources = [pair.source for pair in pairs]
        self._references = [pair.target for pair in pairs]
        search = SearchConfig(beam=1, max_extra=config.search.max_extra)
        # A dev sentence that is too long must not end a training; its pair is cut as well.
        data = dataclasses.replace(config.data, on_long="cut")
        self._translator = Translator(model, prepared.tokenizer, search, data)

    def evaluate(self) -> tuple[Scores, list[str]]:
        """Measure.

        Returns:
            ``dev_loss``, ``dev_perplexity`` and, where sentences are translated,
            ``dev_bleu``; and the translations.
        """
        logs = self._model.evaluate(
            dataset(self._store, self._plan, repeat=False),
            # Said beforehand, so that Keras does not take the end for a shortage.
            steps=self._plan.batches_per_epoch,
            verbose=0,
            return_dict=True,
        )
        scores = {"dev_loss": logs["loss"], "dev_perplexity": perplexity(logs["log_loss"])}
        if not self._sources:
            return scores, []
        translations = [item.text for item in self._translator.translate(self._sources)]
        scores["dev_bleu"] = bleu(translations, [self._references], self._language)
        return scores, translations


def merit(scores: Scores) -> float:
    """What the best weights have most of: BLEU, or the negative loss where that is left out."""
    return scores.get("dev_bleu", -scores["dev_loss"])


def told(scores: Scores) -> str:
    """The scores for people."""
    names = {"dev_loss": "dev loss", "dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}
    return ", ".join(f"{names[name]} {value:.2f}" for name, value in scores.items())
