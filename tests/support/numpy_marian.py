"""Hugging Face's MarianMT in NumPy, from its tensors and its config.json.

It computes as MarianMT does, whatever the run was: post-norm with epsilon 1e-5, biases everywhere,
sinusoids in halves unless there is a table of positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.support import numpy_transformer

ACTIVATIONS = {
    "swish": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
}
ATTENTIONS = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
PROJECTIONS = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
SIDES = {"encoder": "source", "decoder": "target"}
TABLE = "model.{}.embed_positions.weight"


def logits(
    tensors: Mapping[str, np.ndarray], config: Mapping[str, Any], source: list[int], labels: Any
) -> np.ndarray:
    """Return the logits (T, V) of labels (T,), given source ids with the end token."""
    left = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    weights: dict[str, np.ndarray] = {"output_bias": left.pop("final_logits_bias")[0]}
    shared = left.pop("model.shared.weight", None)
    assert (shared is not None) == config["share_encoder_decoder_embeddings"]
    for side, name in SIDES.items():
        if shared is None:
            weights[name] = left.pop(f"model.{side}.embed_tokens.weight")
        else:
            weights[name] = shared
        if TABLE.format(side) in left:
            table = left.pop(TABLE.format(side))
            assert len(table) == config["max_position_embeddings"]
            weights[f"{name}_positions/table"] = table
    tied = config["tie_word_embeddings"]
    weights["projection"] = weights["target"] if tied else left.pop("lm_head.weight")
    for side in SIDES:
        for layer in range(config[f"{side}_layers"]):
            weights |= _layer(left, f"model.{side}.layers.{layer}.", f"{side}/layers/{layer}/")
    assert not left  # transformers would warn of tensors that it does not use
    choices = numpy_transformer.Choices(
        heads=(config["encoder_attention_heads"], config["decoder_attention_heads"]),
        activation=ACTIVATIONS[config["activation_function"]],
        epsilon=1e-5,
        positions="learned" if "source_positions/table" in weights else "sinusoidal",
        halves=True,
        scale=config["d_model"] ** 0.5 if config["scale_embedding"] else 1.0,
    )
    inputs = [config["decoder_start_token_id"], *labels[:-1]]
    return numpy_transformer.logits(weights, choices, source, inputs)


def _layer(left: dict[str, np.ndarray], name: str, path: str) -> dict[str, np.ndarray]:
    weights = {}

    def linear(theirs: str, ours: str) -> None:
        weights[f"{path}{ours}_kernel"] = left.pop(f"{name}{theirs}.weight").T
        weights[f"{path}{ours}_bias"] = left.pop(f"{name}{theirs}.bias")

    def norm(theirs: str, ours: str) -> None:
        prefix = f"{path}{ours}_connection/normalization"
        weights[f"{prefix}/gamma"] = left.pop(f"{name}{theirs}_layer_norm.weight")
        weights[f"{prefix}/beta"] = left.pop(f"{name}{theirs}_layer_norm.bias")

    for theirs, ours in ATTENTIONS.items():
        if f"{name}{theirs}.q_proj.weight" in left:
            norm(theirs, ours)
            for projection, part in PROJECTIONS.items():
                linear(f"{theirs}.{projection}", f"{ours}/{part}")
    norm("final", "feed_forward")
    linear("fc1", "feed_forward/inner")
    linear("fc2", "feed_forward/outer")
    return weights
