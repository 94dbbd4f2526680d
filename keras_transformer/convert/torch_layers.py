"""Layers in the names of PyTorch systems, whose linear weights are (out, in)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from keras_transformer.convert.tensors import Tensors

Weights = dict[str, np.ndarray]

FAIRSEQ_ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
"""Projections of attention in fairseq and Hugging Face."""


def linear(tensors: Tensors, name: str, shape: tuple[int, int], path: str, bias: bool) -> Weights:
    """Return kernel and bias of a linear layer.

    Args:
        tensors: The checkpoint.
        name: ``NAME.weight`` (out, in) and ``NAME.bias`` are taken.
        shape: (in, out).
        path: Our path without ``_kernel`` and ``_bias``.
        bias: Whether the layer has a bias.
    """
    weights = {f"{path}_kernel": tensors.take(f"{name}.weight", shape[::-1]).T}
    if bias:
        weights[f"{path}_bias"] = tensors.take(f"{name}.bias", shape[1:])
    return weights


def attention(
    tensors: Tensors,
    name: str,
    d_model: int,
    path: str,
    *,
    names: Mapping[str, str] = FAIRSEQ_ATTENTION,
    bias: bool = True,
) -> Weights:
    """Return the weights of an attention layer; ``names`` has its four projections."""
    weights: Weights = {}
    for ours, theirs in names.items():
        weights |= linear(
            tensors, f"{name}.{theirs}", (d_model, d_model), f"{path}/{ours}", bias=bias
        )
    return weights


def layer_norm(tensors: Tensors, name: str, d_model: int, path: str) -> Weights:
    """Return gamma and beta of a layer normalization, whose path is ours."""
    return {
        f"{path}/gamma": tensors.take(f"{name}.weight", (d_model,)),
        f"{path}/beta": tensors.take(f"{name}.bias", (d_model,)),
    }


def fairseq_layer(
    tensors: Tensors, name: str, d_model: int, d_ff: int, path: str, *, decoder: bool
) -> Weights:
    """Return the weights of a layer in the names of fairseq and Hugging Face.

    Args:
        tensors: The checkpoint.
        name: Such as ``model.encoder.layers.0``.
        d_model: D.
        d_ff: Inner width of the feed-forward network.
        path: Ours, such as ``encoder/layers/0``.
        decoder: Whether the layer attends to the encoder too.
    """
    attentions = {"self_attention": "self_attn"}
    if decoder:
        attentions["cross_attention"] = "encoder_attn"
    weights: Weights = {}
    for ours, theirs in attentions.items():
        weights |= attention(tensors, f"{name}.{theirs}", d_model, f"{path}/{ours}")
        norm = f"{path}/{ours}_connection/normalization"
        weights |= layer_norm(tensors, f"{name}.{theirs}_layer_norm", d_model, norm)
    inner = f"{path}/feed_forward/inner"
    weights |= linear(tensors, f"{name}.fc1", (d_model, d_ff), inner, bias=True)
    outer = f"{path}/feed_forward/outer"
    weights |= linear(tensors, f"{name}.fc2", (d_ff, d_model), outer, bias=True)
    norm = f"{path}/feed_forward_connection/normalization"
    return weights | layer_norm(tensors, f"{name}.final_layer_norm", d_model, norm)
