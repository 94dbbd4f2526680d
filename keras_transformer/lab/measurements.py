"""Measurements of a run's weights on a fixed batch of its dev set."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.lab.layer_measurements import (
    activation_norms,
    gradient_norms,
    rank_distances,
)
from keras_transformer.model import transformer
from keras_transformer.model.attention_weights import attention_weights
from keras_transformer.run import Run, RunError
from keras_transformer.special_tokens import PAD, START, source_tokens
from keras_transformer.training.loss import token_losses

BINS = 10
"""Bins of the reliability curve."""


class Batch(NamedTuple):
    """Sentence pairs as ids."""

    source: np.ndarray
    """(B, S) int32, END last unless ``data.source_end`` is false, padded."""
    target: np.ndarray
    """(B, T) int32, START first, padded: the decoder's input."""
    labels: np.ndarray
    """(B, T) int32, END last, padded: the token after each position of ``target``."""
    characters: int
    """Characters of the target texts."""

    @property
    def inputs(self) -> dict[str, tf.Tensor]:
        """The model's inputs."""
        return {"source": tf.constant(self.source), "target": tf.constant(self.target)}

    @property
    def tokens(self) -> int:
        """Number of target tokens, END counted."""
        return int(np.count_nonzero(self.labels))


def measure(run: Run, weights: Path | None = None, sentences: int = 64) -> dict[str, Any]:
    """Measure a model on dev pairs, without dropout and label smoothing.

    Args:
        run: A run folder.
        weights: One of its weights files; None for the initial weights of its seed.
        sentences: Number of dev pairs, from the first on.

    Returns:
        Numbers for JSON, losses in nats:

        - ``nll_per_token`` and ``nll_per_character``, with ``tokens`` and ``characters``. The
          second one can be compared between vocabularies.
        - ``ln_vocabulary``, the loss of a uniform distribution; that of initial weights is near.
        - ``nll_shuffled_sources`` per token, each target with another pair's source: higher than
          ``nll_per_token`` if the model uses the source.
        - ``gradient_norm`` and ``activation_norm`` by layer.
        - ``attention_entropy`` in nats and ``relative_attention_entropy``, by kind and layer.
        - ``rank_distance`` of the encoder's embeddings and of each layer's output.
        - ``reliability`` and ``calibration_error``.

    Raises:
        RunError: The weights cannot be loaded.
        DataError: The dev set is missing or damaged.
    """
    model, batch = load_model(run, weights), dev_batch(run, sentences)
    nll = negative_log_likelihood(model, batch)
    shuffled = negative_log_likelihood(model, shuffled_sources(batch))
    curve = reliability(model, batch)
    entropy = attention_entropies(model, batch)
    return {
        "nll_per_token": nll / batch.tokens,
        "nll_per_character": nll / batch.characters,
        "tokens": batch.tokens,
        "characters": batch.characters,
        "ln_vocabulary": math.log(run.config.model.target_vocabulary_size),
        "nll_shuffled_sources": shuffled / batch.tokens,
        "gradient_norm": gradient_norms(model, batch.inputs, batch.labels),
        "activation_norm": activation_norms(model, batch.inputs),
        "attention_entropy": {kind: [nats for nats, _ in found] for kind, found in entropy.items()},
        "relative_attention_entropy": {
            kind: [relative for _, relative in found] for kind, found in entropy.items()
        },
        "rank_distance": rank_distances(model, batch.inputs),
        "reliability": curve,
        "calibration_error": calibration_error(curve),
    }


def dev_batch(run: Run, sentences: int = 64) -> Batch:
    """Encode the first pairs of the dev set; longer sentences are truncated.

    Raises:
        DataError: The dev set is missing or damaged.
    """
    pairs = run.dev_pairs()[:sentences]
    tokenizer, data = run.tokenizer(), run.config.data

    def encode(side: Any, texts: list[str], end: bool) -> list[list[int]]:
        most = data.max_tokens - end
        return [source_tokens(ids[:most], end) for ids in side.encode(texts)]

    labels = encode(tokenizer.target, [pair.target for pair in pairs], True)
    return Batch(
        _padded(encode(tokenizer.source, [pair.source for pair in pairs], data.source_end)),
        _padded([[START, *row[:-1]] for row in labels]),
        _padded(labels),
        sum(len(pair.target) for pair in pairs),
    )


def _padded(rows: list[list[int]]) -> np.ndarray:
    padded = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def load_model(run: Run, weights: Path | None = None) -> keras.Model:
    """Build a run's model with one of its weights files, or with its initial weights.

    It seeds TensorFlow, after which earlier tokenizers in its graphs cannot be used.

    Raises:
        RunError: The file cannot be loaded.
    """
    keras.utils.set_random_seed(run.config.train.seed)
    model = transformer.build(dataclasses.replace(run.config.model, attention="plain"))
    if weights is not None:
        try:
            model.load_weights(weights)
        except (ValueError, OSError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise RunError(f"{weights}: cannot be loaded: {reason}") from error
    return model


def shuffled_sources(batch: Batch) -> Batch:
    """Return the batch with each target beside the source of the previous pair."""
    return batch._replace(source=np.roll(batch.source, 1, axis=0))


def negative_log_likelihood(model: keras.Model, batch: Batch) -> float:
    """Return -log P(labels | sources), summed over all target tokens, in nats."""
    losses = token_losses(model(batch.inputs, training=False), tf.constant(batch.labels))
    return float(tf.reduce_sum(losses))


def attention_entropies(model: keras.Model, batch: Batch) -> dict[str, list[tuple[float, float]]]:
    """Return `attention_entropy` of each layer, by kind: encoder, decoder and cross."""
    source, target = batch.source != PAD, batch.target != PAD
    causal = np.tri(target.shape[1], dtype=bool)
    allowed = {
        "encoder": source[:, None, None] & source[:, None, :, None],
        "decoder": target[:, None, None] & target[:, None, :, None] & causal,
        "cross": source[:, None, None] & target[:, None, :, None],
    }
    weights = attention_weights(model, batch.source, batch.target)
    return {
        kind: [attention_entropy(layer, allowed[kind]) for layer in layers]
        for kind, layers in weights._asdict().items()
    }


def attention_entropy(weights: np.ndarray, allowed: np.ndarray) -> tuple[float, float]:
    """Return the mean entropy of attention.

    Args:
        weights: (B, H, T, S).
        allowed: Boolean (B, 1, T, S), True where a query may attend to a key; a query without
            any True, such as padding, is left out.

    Returns:
        The mean over queries and heads in nats, and the mean relative entropy: divided by its
        maximum, the logarithm of the number of allowed keys. It is 0 if one key has all the
        weight, 1 if all keys have the same. Queries with one key are left out of it.
    """
    logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy = -(weights * logarithms).sum(axis=-1)  # (B, H, T)
    keys = np.broadcast_to(allowed.sum(axis=-1), entropy.shape)
    several = keys > 1
    relative = entropy[several] / np.log(keys[several])
    return _mean(entropy[keys > 0]), _mean(relative)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def reliability(model: keras.Model, batch: Batch) -> dict[str, list[Any]]:
    """Return the reliability curve of the most probable tokens (Guo et al. 2017).

    Returns:
        For each of ten bins of equal width between 0 and 1: the mean ``confidence`` (probability
        of the most probable token), its ``accuracy``, and the number of ``tokens``. Confidence
        and accuracy of an empty bin are None.
    """
    probabilities = tf.nn.softmax(model(batch.inputs, training=False)).numpy()  # (B, T, V)
    real = batch.labels != PAD
    confidence = probabilities.max(axis=-1)[real]
    correct = (probabilities.argmax(axis=-1) == batch.labels)[real]
    # With diverged weights confidence is NaN: their tokens enter the first bin, which becomes NaN.
    bins = np.minimum((np.nan_to_num(confidence) * BINS).astype(int), BINS - 1)
    found = [bins == number for number in range(BINS)]
    return {
        "confidence": [float(confidence[own].mean()) if own.any() else None for own in found],
        "accuracy": [float(correct[own].mean()) if own.any() else None for own in found],
        "tokens": [int(own.sum()) for own in found],
    }


def calibration_error(curve: dict[str, list[Any]]) -> float:
    """Return the expected calibration error: mean |accuracy - confidence|, weighted by tokens."""
    filled = [column for column in zip(*curve.values(), strict=True) if column[2]]
    total = sum(tokens for _, _, tokens in filled)
    gaps = (tokens * abs(confidence - accuracy) for confidence, accuracy, tokens in filled)
    return sum(gaps) / total if total else math.nan
