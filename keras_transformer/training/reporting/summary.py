"""Summary of a run before its first step: parameters, memory, batches, updates."""

from __future__ import annotations

import keras
import numpy as np

from keras_transformer.config import Config, ModelConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.positions import PositionalEncoding
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.fused_loss import rows_of_a_pass
from keras_transformer.training.reporting.progress import format_duration


def summary(
    model: keras.Model,
    config: Config,
    plan: BatchPlan,
    distribution: Distribution,
    micro_batches: int,
) -> list[str]:
    """Summarise a run, in a line each for parameters, memory, batches and updates.

    Args:
        model: The model.
        config: The configuration of the run.
        plan: The batches.
        distribution: The devices and workers.
        micro_batches: Micro-batches per device and batch.
    """
    sizes = plan.sizes()
    activations = activation_bytes(config, sizes, distribution.devices * micro_batches)
    return [
        _parameters(model),
        _memory(model, config, activations, micro_batches),
        _batches(plan, sizes),
        _updates(config, plan, distribution, micro_batches),
    ]


def parameters_by_part(model: keras.Model) -> dict[str, int]:
    """Return the parameters of the embeddings, the encoder and the decoder.

    Learned positions and the output projection count as embeddings.
    """
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


def _memory(model: keras.Model, config: Config, activations: int, micro_batches: int) -> str:
    """Describe the memory of one device, for all weights and its shard of a batch."""
    weights = 4 * model.count_params()  # float32 in any precision
    sizes = {"weights": weights, "gradients": weights, "Adam's moments": 2 * weights}
    if micro_batches > 1:
        sizes["gradients"] *= 2  # of a micro-batch, and accumulated
    if config.train.ema_decay:
        sizes["EMA"] = weights
    sizes["activations of the largest batch"] = activations
    each = ", ".join(f"{name} {_megabytes(size)}" for name, size in sizes.items())
    return f"about {_megabytes(sum(sizes.values()))} MB per device, estimated: {each}"


def activation_bytes(config: Config, sizes: np.ndarray, shards: int = 1) -> int:
    """Estimate the bytes that a step keeps for the backward pass of the largest batch.

    The estimate counts the outputs of matrix products, normalisations and dropout, the attention
    weights before and after masking and dropout, and the logits of one pass of the loss. It
    omits the workspace of kernels: on a CPU, steps of 4,096 tokens took 1.0 to 1.2 times as much.

    Args:
        config: The configuration of the run.
        sizes: (batches, 3) rows, S and T, from `BatchPlan.sizes`.
        shards: Devices times micro-batches per device.
    """
    model = config.model
    rows, source, target = np.ceil(sizes[:, 0] / shards), sizes[:, 1], sizes[:, 2]
    size = 4 if config.train.precision == "float32" else 2
    kept = _KEPT[model.architecture](config, size, source, target)
    embedded = size * 2 * model.d_model * (source + target)
    logits = 4 * 2 * np.minimum(rows * target, rows_of_a_pass()) * model.target_vocabulary_size
    return int((rows * (kept + embedded) + logits).max())


def _transformer_bytes(
    config: Config, size: int, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Estimate what the layers of a Transformer keep of one row, with ``size`` bytes a number."""
    model = config.model
    attention, feed_forward, weights = _layer_numbers(model.side("encoder"))
    encoder = size * source * (attention + feed_forward) + 4 * weights * source**2
    attention, feed_forward, weights = _layer_numbers(model.side("decoder"))
    decoder = size * target * (2 * attention + feed_forward)
    decoder += 4 * weights * target * (target + source)
    layers = model.encoder_layers, model.decoder_layers
    if config.train.gradient_checkpointing:  # the inputs of all layers, and all of one layer
        inputs = size * model.d_model * (layers[0] * source + layers[1] * target)
        return inputs + np.maximum(encoder, decoder)
    return layers[0] * encoder + layers[1] * decoder


def _layer_numbers(side: ModelConfig) -> tuple[int, int, int]:
    """Return how many numbers a layer of a side keeps for the backward pass.

    Returns:
        For each position, those of an attention and of the feed-forward network; for each pair of
        positions, the attention weights, float32 in any precision.
    """
    attention = 2 * side.heads * (side.key_width + side.value_width) + 4 * side.d_model
    # The ReLU's gradient needs its output only, that of the others their input and factor too.
    inner = side.d_ff * (1 if side.activation == "relu" else 3)
    # Blockwise attention keeps no weights.
    matrices = 0 if side.attention == "blockwise" else 3 if side.attention_dropout else 2
    return attention, inner + 4 * side.d_model, matrices * side.heads


def _recurrent_bytes(
    config: Config, size: int, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Estimate what the layers of a recurrent network keep of one row."""
    model = config.model
    # Each cell: its input, its output, and in float32 gates, activations and cell.
    cell = model.d_model * (2 * size + 4 * (4 + 4 + 3))
    # Additive attention keeps its hidden layer for each pair of positions, and the context.
    attention = target * model.d_model * (size * (source + 4))
    encoder = 2 * model.encoder_layers * cell * source
    return encoder + model.decoder_layers * cell * target + attention


_KEPT = {"transformer": _transformer_bytes, "recurrent": _recurrent_bytes}
"""Bytes that the layers keep of one row for the backward pass, by ``architecture``."""


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f}" if size >= 10 * 2**20 else f"{size / 2**20:.1f}"


def _batches(plan: BatchPlan, sizes: np.ndarray) -> str:
    count = plan.batches_per_epoch
    source, target = plan.source_tokens / count, plan.target_tokens / count
    return (
        f"{plan.pairs:,} pairs in {count:,} batches per epoch, {source:,.0f} + {target:,.0f} "
        f"tokens per batch (source + target), {plan.padding(sizes):.1%} padding"
    )


def _updates(
    config: Config, plan: BatchPlan, distribution: Distribution, micro_batches: int
) -> str:
    train = config.train
    used = distribution.description
    if distribution.workers > 1:
        used += f" of {distribution.workers} workers"
    if micro_batches > 1:
        used += f", {micro_batches} micro-batches per device"
    used += f", {train.precision}"
    epochs = train.max_steps / plan.batches_per_epoch
    digits = 1 if epochs < 100 else 0
    limit = f", {format_duration(60 * train.max_minutes)} at most" if train.max_minutes else ""
    updates = f"{train.max_steps:,} update{'s' if train.max_steps > 1 else ''}"
    return f"{updates}, {epochs:,.{digits}f} epochs{limit}; {used}"
