"""Second part of the walkthrough: one batch of training, from a new model to its first update."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.compat.keras import adam_moments
from keras_transformer.config import Config, TrainConfig
from keras_transformer.data.store import EncodedSentences, EncodedStore, write_store
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.model import transformer
from keras_transformer.training.loss import TokenLoss, label_smoothed_cross_entropy
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.training.step import build_model
from tools.generated_blocks import table
from tools.walkthrough.formatting import number, pieces

PAIRS = (("I love you.", "我爱你。"), ("She is reading a book.", "她在看一本书。"))

Inputs = dict[str, tf.Tensor]


def training_blocks(config: Config, tokenizer: Tokenizer, trained: keras.Model) -> dict[str, str]:
    """Return the blocks about a batch, its loss, its gradient and the first update.

    Args:
        config: The configuration of the run.
        tokenizer: Its tokenizer.
        trained: Its model, for comparison.
    """
    inputs, labels = batch(tokenizer)
    keras.utils.set_random_seed(config.train.seed)
    model = build_model(config, micro_batches=1)
    new = model.token_loss(inputs, labels, training=False)
    smoothing = config.train.label_smoothing
    known = label_smoothed_cross_entropy(trained(inputs, training=False), labels, smoothing)
    weights = transformer.projection(model).matrix
    before = weights.numpy()
    results = model.train_step((inputs, labels))
    moments = adam_moments(model.optimizer, weights.value)
    place = int(labels[0, 1]), 0
    values = [float(array[place]) for array in (before, *moments, weights.numpy())]
    piece = pieces(tokenizer.target, place[:1])[0]
    return {
        "training-batch": _batch_table(inputs, labels, tokenizer),
        "loss": _loss_table({"new model": new, "trained model": known}, weights.shape[0]),
        "rate": _rate_table(config),
        "update": _update_table(values, piece, float(results["gradient_norm"]), config),
    }


def batch(tokenizer: Tokenizer) -> tuple[Inputs, tf.Tensor]:
    """Return inputs and labels of the pairs, padded as in training."""
    encoded = [
        EncodedSentences.from_lists(side.encode([pair[index] for pair in PAIRS]))
        for index, side in enumerate((tokenizer.source, tokenizer.target))
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_store(Path(folder) / "pairs", [(encoded[0], encoded[1])])
        arrays = EncodedStore(Path(folder) / "pairs").batch(range(len(PAIRS)))
    tensors = {name: tf.constant(ids) for name, ids in arrays.items()}
    return tensors, tensors.pop("labels")


def _batch_table(inputs: Inputs, labels: tf.Tensor, tokenizer: Tokenizer) -> str:
    """Return the first pair of the batch, token below token."""
    rows = [
        ["source", *pieces(tokenizer.source, inputs["source"][0].numpy())],
        ["target", *pieces(tokenizer.target, inputs["target"][0].numpy())],
        ["labels", *pieces(tokenizer.target, labels[0].numpy())],
    ]
    width = max(map(len, rows))
    header = ["", *map(str, range(width - 1))]
    return table(header, [row + [""] * (width - len(row)) for row in rows])


def _loss_table(losses: dict[str, TokenLoss], vocabulary_size: int) -> str:
    rows = []
    for name, loss in losses.items():
        tokens, total, log_loss = (
            float(value) for value in (loss.tokens, loss.loss, loss.log_loss)
        )
        means = total / tokens, log_loss / tokens
        cells = [number(total), number(tokens, 0), *map(number, means)]
        rows.append([name, *cells, f"{math.exp(means[1]):,.1f}"])
    uniform = number(math.log(vocabulary_size))
    rows.append(["all tokens equal: ln V", "", "", uniform, uniform, f"{vocabulary_size:,}.0"])
    header = ["", "sum", "tokens", "loss", "negative log-likelihood", "perplexity"]
    return table(header, rows)


def _rate_table(config: Config) -> str:
    train = config.train
    steps = [1, train.warmup_steps // 2, train.warmup_steps, train.max_steps]
    rates = [f"{_rate(config, step):.2e}" for step in steps]
    return table(["step", *(f"{step:,}" for step in steps)], [["learning rate", *rates]])


def _rate(config: Config, step: int) -> float:
    train: TrainConfig = config.train
    schedule = NoamSchedule(config.model.d_model, train.warmup_steps, train.learning_rate_factor)
    return float(schedule(step - 1))


def _update_table(values: list[float], piece: str, norm: float, config: Config) -> str:
    """Return Adam's first update of one weight, from its moments after it."""
    train = config.train
    before, first, second, after = values
    mean, square = first / (1 - train.adam_beta_1), second / (1 - train.adam_beta_2)
    change = _rate(config, 1) * mean / (math.sqrt(square) + train.adam_epsilon)
    if not np.isclose(before - change, after, rtol=1e-4):
        raise ValueError(f"update: expected {before - change}, got {after}")
    rows = [
        ["norm of the gradient of the mean loss, all weights", number(norm)],
        [f"a weight: first number of the row {piece} of E", number(before, 6)],
        ["g, its gradient", f"{mean:.2e}"],
        ["m = (1 − β₁) g", f"{first:.2e}"],
        ["v = (1 − β₂) g²", f"{second:.2e}"],
        ["corrected: m / (1 − β₁) and √(v / (1 − β₂))", f"{mean:.2e} and {math.sqrt(square):.2e}"],
        ["learning rate", f"{_rate(config, 1):.2e}"],
        ["change: − rate · m / (√v + ε), corrected", f"{-change:.2e}"],
        ["the weight after the update", number(after, 6)],
    ]
    return table(["quantity", "value"], rows)
