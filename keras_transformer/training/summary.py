"""What a training is going to be, in a few lines before its first step."""

from __future__ import annotations

import keras
import numpy as np

from keras_transformer.config import Config, ModelConfig
from keras_transformer.data.batches import BatchPlan
from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.positions import PositionalEncoding
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.loss import ROWS
from keras_transformer.training.progress import duration


def summary(
    model: keras.Model, config: Config, plan: BatchPlan, distribution: Distribution, pieces: int
) -> list[str]:
    """The lines.

    Args:
        model: The network.
        config: Of the run.
        plan: The batches.
        distribution: Where it runs.
        pieces: Parts in which a device takes its share of a batch.
    """
    return [
        _parameters(model),
        *_memory(model, config, plan, distribution.devices * pieces, pieces),
        _batches(plan),
        _work(config, plan, distribution, pieces),
    ]


def parameters_by_part(model: keras.Model) -> dict[str, int]:
    """Parameters of the embeddings (learned positions and the projection among them), of the
    encoder and of the decoder."""
    parts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    for layer in model.layers:
        embeds = isinstance(layer, TokenEmbedding | PositionalEncoding)
        name = "embeddings" if embeds else layer.name
        if name in parts:
            parts[name] += layer.count_params()
    return parts


def _parameters(model: keras.Model) -> str:
    parts = parameters_by_part(model)
    each = ", ".join(f"{name} {count:,}" for name, count in parts.items())
    return f"{model.count_params():,} parameters: {each}"


def _memory(
    model: keras.Model, config: Config, plan: BatchPlan, parts: int, pieces: int
) -> list[str]:
    """Of one device, which holds all weights and takes its part of each batch."""
    weights = 4 * model.count_params()  # float32, whatever the layers compute in
    kept = {"weights": weights, "gradients": weights, "moments of Adam": 2 * weights}
    if pieces > 1:
        kept["gradients"] *= 2  # of a piece, and their sum
    if config.train.moving_average:
        kept["moving average"] = weights
    kept["activations"] = most_activations(config, plan, parts)
    each = ", ".join(f"{name} {_megabytes(size)}" for name, size in kept.items())
    return [
        f"memory of a device about {_megabytes(sum(kept.values()))} MB: {each}",
        "  (activations: what the layers keep of the largest batch for their gradients, counted "
        "from the sizes)",
    ]


def most_activations(config: Config, plan: BatchPlan, parts: int = 1) -> int:
    """About how many bytes a step keeps until its gradients are known, for the largest batch.

    Counted are the results of the matrix products, of the normalisations, of activation and
    dropout, and the attention weights before and after dropout; beside them the logits of one
    pass of the loss. What a kernel needs for itself is not.

    Args:
        config: The sizes.
        plan: The batches.
        parts: Into how many each batch is split.
    """
    sizes = plan.sizes()
    rows, source, target = np.ceil(sizes[:, 0] / parts), sizes[:, 1], sizes[:, 2]
    model = config.model
    size = 4 if config.train.precision == "float32" else 2
    attended = model.encoder_layers * source * source + model.decoder_layers * target * (
        target + source
    )
    # The softmax is in float32 in any case.
    weights = 4 * 2 * model.heads * attended
    states = size * (source * _encoder_width(model) + target * _decoder_width(model))
    logits = 4 * 2 * np.minimum(rows * target, ROWS) * model.target_vocabulary
    return int((rows * (weights + states) + logits).max())


def _attention_width(model: ModelConfig) -> int:
    """Numbers that an attention sub-layer keeps a position: queries, keys, values, each as
    projected and by head, the context likewise; output, dropout, sum and normalisation."""
    return 4 * model.heads * (model.key_width + model.value_width) + 4 * model.d_model


def _feed_forward_width(model: ModelConfig) -> int:
    """The same of a feed-forward sub-layer: the inner layer before and after its activation."""
    return 2 * model.d_ff + 4 * model.d_model


def _encoder_width(model: ModelConfig) -> int:
    layer = _attention_width(model) + _feed_forward_width(model)
    return 2 * model.d_model + model.encoder_layers * layer


def _decoder_width(model: ModelConfig) -> int:
    layer = 2 * _attention_width(model) + _feed_forward_width(model)
    return 2 * model.d_model + model.decoder_layers * layer


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f}" if size >= 10 * 2**20 else f"{size / 2**20:.1f}"


def _batches(plan: BatchPlan) -> str:
    count = plan.batches_per_epoch
    source, target = plan.source_tokens / count, plan.target_tokens / count
    return (
        f"{plan.pairs:,} pairs in {count:,} batches an epoch, {source:,.0f} + {target:,.0f} tokens "
        f"a batch (source + target), {plan.padding():.1%} padding"
    )


def _work(config: Config, plan: BatchPlan, distribution: Distribution, pieces: int) -> str:
    train = config.train
    devices = f"{distribution.devices} device{'s' if distribution.devices > 1 else ''}"
    if distribution.workers > 1:
        devices += f" of {distribution.workers} workers"
    if pieces > 1:
        devices += f", a batch in {pieces} pieces on each"
    epochs = train.max_steps / plan.batches_per_epoch
    digits = 1 if epochs < 100 else 0
    time = f", {duration(60 * train.max_minutes)} at most" if train.max_minutes else ""
    updates = f"{train.max_steps:,} update{'s' if train.max_steps > 1 else ''}"
    return f"{updates}, {epochs:,.{digits}f} epochs{time}; {devices}"
