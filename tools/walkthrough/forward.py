"""First part of the walkthrough: from the bytes of a sentence to the logits of the model.

Shapes: S source length, T target length, H heads, D model width, K head width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data import normalization
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.alignment import attention_matrix
from keras_transformer.inference.grouping import padded_ids
from keras_transformer.inference.inference_functions import shift_right
from keras_transformer.model import transformer
from keras_transformer.model.attention import split_heads
from keras_transformer.model.decoder import DecoderLayer
from keras_transformer.model.encoder import EncoderLayer
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.model.kernels.linear import project
from keras_transformer.model.masks import look_ahead_mask, padding_mask
from keras_transformer.model.positions import sinusoidal_encoding
from keras_transformer.run import Run
from keras_transformer.special_tokens import END
from tools.generated_blocks import table
from tools.walkthrough.formatting import hexadecimal, matrix, number, pieces, vector

SENTENCE = "I love you."
LONGER = "She is reading a book."  # so that the sentence is padded in a batch with it
SPELLINGS = ("I love you.", " I  love\u00a0you. ", "\uff29 love \uff59\uff4f\uff55.")


Sublayer = Callable[[tf.Tensor], tf.Tensor]


class Tensor(NamedTuple):
    """An intermediate tensor of a stack of layers."""

    layer: str
    part: str
    value: tf.Tensor
    """(1, T, D)."""


def text_blocks(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the blocks about text: bytes, normalization, tokens, batch and masks."""
    side = tokenizer.source
    ids = [*side.encode([SENTENCE])[0], END]
    batch = padded_ids([ids, [*side.encode([LONGER])[0], END]])
    plain = normalization.normalizer(space_marks=False)
    spellings = [
        [
            hexadecimal(text),
            f"`{plain.Normalize(text)}`",
            ", ".join(map(str, side.encode([text])[0])),
        ]
        for text in SPELLINGS
    ]
    rows = [
        [str(place), piece, str(token)]
        for place, (piece, token) in enumerate(zip(pieces(side, ids), ids, strict=True))
    ]
    mask = padding_mask(tf.constant(batch)).numpy()[:, 0, 0]  # (B, S)
    return {
        "bytes": table(["UTF-8 bytes", "normalized text", "ids"], spellings),
        "tokens": table(["position", "piece", "id"], rows),
        "batch": f"```text\nsource {batch.shape}\n{batch}\n```",
        "source-mask": "```text\nsource mask (2, 1, 1, "
        f"{batch.shape[1]}), the two rows\n{mask.astype(int)}\n```",
    }


def model_block(run: Run, model: keras.Model) -> str:
    """Return the block about the model."""
    config = run.config.model
    rows = [
        ["encoder and decoder layers, N", f"{config.encoder_layers} and {config.decoder_layers}"],
        ["model width, D", str(config.d_model)],
        ["heads, H; width of each, K", f"{config.heads}; {config.key_width}"],
        ["feed-forward width", str(config.d_ff)],
        ["vocabulary, V, for both languages", f"{config.target_vocabulary_size:,}"],
        ["order of normalization", {"pre": "Pre-LN", "post": "Post-LN"}[config.norm]],
        ["parameters", f"{model.count_params():,}"],
    ]
    return table(["the model", "value"], rows)


def encoder_trace(model: keras.Model, source: tf.Tensor) -> Iterator[Tensor]:
    """Yield the tensors of the encoder after each part, as `EncoderLayer.call` computes them."""
    encoder, mask = model.get_layer("encoder"), padding_mask(source)
    x = model.get_layer("source_positions")(transformer.source_embedding(model)(source))
    yield Tensor("", "embedding + position", x)
    for count, layer in enumerate(encoder.layers, 1):
        name = f"layer {count}"
        x = layer.self_attention_connection(x, sublayer=_self_attention(layer, mask))
        yield Tensor(name, "self-attention", x)
        x = layer.feed_forward_connection(x, sublayer=layer.feed_forward)
        yield Tensor(name, "feed-forward", x)
    if encoder.final_norm is not None:
        yield Tensor("", "final LayerNorm", encoder.apply_final_norm(x))


def decoder_trace(
    model: keras.Model, memory: tf.Tensor, source: tf.Tensor, target: tf.Tensor
) -> Iterator[Tensor]:
    """Yield the tensors of the decoder after each part, as `DecoderLayer.call` computes them."""
    decoder, mask = model.get_layer("decoder"), padding_mask(target)
    source_mask = padding_mask(source)
    x = model.get_layer("target_positions")(transformer.target_embedding(model)(target))
    yield Tensor("", "embedding + position", x)
    for count, layer in enumerate(decoder.layers, 1):
        name = f"layer {count}"
        x = layer.self_attention_connection(x, sublayer=_self_attention(layer, mask, causal=True))
        yield Tensor(name, "masked self-attention", x)
        x = layer.cross_attention_connection(
            x, sublayer=_cross_attention(layer, memory, source_mask)
        )
        yield Tensor(name, "cross-attention", x)
        x = layer.feed_forward_connection(x, sublayer=layer.feed_forward)
        yield Tensor(name, "feed-forward", x)
    if decoder.final_norm is not None:
        yield Tensor("", "final LayerNorm", decoder.apply_final_norm(x))


def forward_blocks(
    model: keras.Model, tokenizer: Tokenizer, source: tf.Tensor, labels: tf.Tensor
) -> dict[str, str]:
    """Return the blocks about embedding, encoder, decoder and cross-attention.

    Args:
        model: The trained model.
        tokenizer: Its tokenizer.
        source: (1, S) ids of the sentence.
        labels: (1, T) ids of its translation.
    """
    target = shift_right(labels)
    encoded = list(encoder_trace(model, source))
    memory = encoded[-1].value
    if not np.allclose(memory, model.get_layer("encoder")(encoded[0].value, padding_mask(source))):
        raise ValueError("encoder: expected the output of its parts, one after the other")
    decoded = list(decoder_trace(model, memory, source, target))
    _, cross = IncrementalDecoder(model).forward(source, target)
    rows = pieces(tokenizer.target, labels[0].numpy())
    columns = pieces(tokenizer.source, source[0].numpy())
    length = target.shape[1]
    visible = look_ahead_mask(length, length).numpy()[0, 0].astype(int)
    inputs = pieces(tokenizer.target, target[0].numpy())
    return {
        "embedding": _embedding(model, tokenizer, source),
        "attention": _attention(model.get_layer("encoder").layers[0], encoded[0].value, columns),
        "encoder": _trace_table(encoded, position=0),
        "look-ahead": f"```text\n{visible}\n```",
        "target": table(["", *map(str, range(length))], [["input", *inputs], ["label", *rows]]),
        "decoder": _trace_table(decoded, position=0),
        "cross": matrix("label", rows, columns, attention_matrix(cross, labels)[0].numpy()),
    }


def _self_attention(
    layer: EncoderLayer | DecoderLayer, mask: tf.Tensor, causal: bool = False
) -> Sublayer:
    return lambda y: layer.self_attention(y, y, mask, causal=causal)


def _cross_attention(layer: DecoderLayer, memory: tf.Tensor, mask: tf.Tensor) -> Sublayer:
    return lambda y: layer.cross_attention(y, memory, mask)


def _embedding(model: keras.Model, tokenizer: Tokenizer, source: tf.Tensor) -> str:
    layer = transformer.source_embedding(model)
    rows = layer.embed(source)[0].numpy()  # (S, D)
    positions = sinusoidal_encoding(*rows.shape).numpy()
    names = pieces(tokenizer.source, source[0].numpy())
    cells = [
        [name, vector(row), vector(position), vector(row + position)]
        for name, row, position in zip(names, rows, positions, strict=True)
    ]
    return table(["piece", "row of E, times √D", "position", "sum"], cells)


def _attention(layer: EncoderLayer, x: tf.Tensor, names: list[str]) -> str:
    """Return scores and weights of the first head of the first layer."""
    y = x
    if layer.self_attention_connection.needs_final_normalization:  # Pre-LN
        y = layer.self_attention_connection.normalization(x)
    attention = layer.self_attention
    keys, _ = attention.keys_values(y)
    queries = split_heads(project(y, attention.query_kernel), attention.heads, attention.key_width)
    queries = attention.encode_positions(queries)  # (1, H, S, K)
    scores = (tf.matmul(queries, keys, transpose_b=True) * attention.score_scale)[0, 0].numpy()
    weights = tf.nn.softmax(scores).numpy()
    _, computed = attention(y, y, return_weights=True)
    if not np.allclose(weights, computed[0, 0], atol=1e-5):
        raise ValueError("attention: expected the weights that the layer returns")
    parts = ["Scores Q Kᵀ / √K:", matrix("query", names, names, scores)]
    parts += ["Weights, the softmax of each row:", matrix("query", names, names, weights)]
    return "\n\n".join(parts)


def _trace_table(tensors: list[Tensor], position: int) -> str:
    cells = []
    for layer, part, value in tensors:
        row = value[0, position].numpy()
        cells.append([layer, part, vector(row), number(float(np.linalg.norm(row)), 2)])
    return table(["layer", "after", f"position {position}", "norm"], cells)
