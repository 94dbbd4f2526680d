"""The whole network as a functional model (figure 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras

from keras_transformer.config import ConfigError, ModelConfig
from keras_transformer.model import components
from keras_transformer.model.configured_layer import ConfiguredLayer
from keras_transformer.model.decoder import Decoder
from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.encoder import Encoder
from keras_transformer.model.masks import PaddingMask
from keras_transformer.model.positions import PositionalEncoding
from keras_transformer.model.variants.recurrent import (
    RecurrentDecoder,
    RecurrentEncoder,
    embedding_dropout,
)


class Architecture(NamedTuple):
    """Factories of the parts of an architecture."""

    encoder: Callable[..., ConfiguredLayer]
    """Called like `Encoder`, as is its result."""
    decoder: Callable[..., ConfiguredLayer]
    """Called like `Decoder`, as is its result."""
    positional_encoding: Callable[..., PositionalEncoding]
    """Called like `components.positional_encoding`."""


ARCHITECTURES: dict[str, Architecture] = {
    "transformer": Architecture(Encoder, Decoder, components.positional_encoding),
    "recurrent": Architecture(RecurrentEncoder, RecurrentDecoder, embedding_dropout),
}
"""Parts by ``architecture``."""


def build(
    config: ModelConfig,
    dtype: str = "float32",
    model_class: type[keras.Model] = keras.Model,
    gradient_checkpointing: bool = False,
) -> keras.Model:
    """Build the network, the Transformer unless ``config.architecture`` is another.

    Args:
        config: The architecture, both vocabulary sizes above 0.
        dtype: Keras dtype policy of the layers, such as "float32" or "mixed_bfloat16".
        model_class: The class of the result, for example one with its own training step.
        gradient_checkpointing: Whether training keeps only the inputs of each layer and
            computes its activations again in the backward pass.

    Returns:
        A functional model from ``{"source": (B, S), "target": (B, T)}``, int32 ids padded
        with ``PAD``, to logits (B, T, V) in float32. ``target`` begins with the start token:
        position t of the logits predicts the token after position t of ``target``.

    Raises:
        ConfigError: A vocabulary size is 0, or a recurrent network is to have gradient
            checkpointing.
    """
    for name in ("source_vocabulary_size", "target_vocabulary_size"):
        if getattr(config, name) < 1:
            raise ConfigError(f"model.{name}: expected 1 or more to build a model, got 0")
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    source_embedding, target_embedding, projection = _embeddings(config, dtype)
    source_mask = PaddingMask(name="source_mask")(source)

    parts = ARCHITECTURES[config.architecture]
    encoder = parts.encoder(config, gradient_checkpointing, name="encoder", dtype=dtype)
    source_positions = parts.positional_encoding(config, name="source_positions", dtype=dtype)
    memory = encoder(source_positions(source_embedding(source)), source_mask)  # (B, S, D)

    decoder = parts.decoder(config, gradient_checkpointing, name="decoder", dtype=dtype)
    target_positions = parts.positional_encoding(config, name="target_positions", dtype=dtype)
    x = target_positions(target_embedding(target))  # (B, T, D)
    target_mask = PaddingMask(name="target_mask")(target)
    features = decoder(x, memory, target_mask, source_mask)  # (B, T, D)

    logits = projection(features, reverse=True)  # (B, T, V)
    return model_class({"source": source, "target": target}, logits, name=config.architecture)


def _embeddings(
    config: ModelConfig, dtype: str
) -> tuple[TokenEmbedding, TokenEmbedding, TokenEmbedding]:
    """Build source embedding, target embedding and projection, shared or not (section 3.4)."""

    def embedding(vocabulary_size: int, name: str, projects: bool = False) -> TokenEmbedding:
        return components.token_embedding(config, vocabulary_size, projects, name=name, dtype=dtype)

    target_size = config.target_vocabulary_size
    if config.embeddings == "tied":
        shared = embedding(target_size, "embedding", projects=True)
        return shared, shared, shared
    source = embedding(config.source_vocabulary_size, "source_embedding")
    if config.embeddings == "decoder":
        target = embedding(target_size, "target_embedding", projects=True)
        return source, target, target
    target = embedding(target_size, "target_embedding")
    return source, target, embedding(target_size, "projection", projects=True)


def source_embedding(model: keras.Model) -> TokenEmbedding:
    """Return the layer that embeds source tokens."""
    return _first_layer(model, "source_embedding", "embedding")


def target_embedding(model: keras.Model) -> TokenEmbedding:
    """Return the layer that embeds target tokens."""
    return _first_layer(model, "target_embedding", "embedding")


def projection(model: keras.Model) -> TokenEmbedding:
    """Return the layer that projects features to logits."""
    return _first_layer(model, "projection", "target_embedding", "embedding")


def _first_layer(model: keras.Model, *names: str) -> TokenEmbedding:
    layers = {layer.name: layer for layer in model.layers}
    return next(layers[name] for name in names if name in layers)


def features(model: keras.Model) -> keras.Model:
    """Return the model without its output projection.

    Args:
        model: A model from `build`.

    Returns:
        A model with the same inputs and weights whose output is the decoder's, (B, T, D). A
        loss can then project real tokens only.
    """
    return keras.Model(model.input, model.get_layer("decoder").output, name="features")
