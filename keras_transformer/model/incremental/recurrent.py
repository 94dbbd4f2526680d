"""Incremental decoding of the recurrent model: the step function of a search.

A recurrent decoder needs no cache: its state is one pair of vectors for each layer, whatever the
position.

Shapes: see `model`; W rows of each sentence, R rows (B * W).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.incremental.interface import DecodingModel, OutputProjection
from keras_transformer.model.masks import padding_mask
from keras_transformer.model.variants.additive_attention import AttentionSource
from keras_transformer.model.variants.recurrent import LstmState, RecurrentDecoder


class RecurrentState(NamedTuple):
    """State of the decoder between two steps."""

    layers: list[LstmState]
    """The state of each layer, R rows."""
    source: AttentionSource
    """Keys and values of the source, B sentences."""


class PreparedWeights(NamedTuple):
    """Weights prepared for the steps of a search."""

    attention_lstm_kernel: tf.Tensor
    """(3 D, 4 D), from `RecurrentDecoder.attention_lstm_kernel`."""
    projection: OutputProjection


class RecurrentIncrementalDecoder(DecodingModel):
    """Incremental decoding of the recurrent model.

    Args:
        model: A recurrent model from `transformer.build`.
        fixed: Whether the weights never change after the first search. They are then prepared
            once instead of in each search, for a second copy of the output projection and of the
            first layer's kernel in memory.
    """

    def __init__(self, model: keras.Model, fixed: bool = False) -> None:
        super().__init__(model)
        self._fixed = fixed
        self._decoder: RecurrentDecoder = model.get_layer("decoder")

    def start(
        self, source: tf.Tensor, beam: int = 1
    ) -> tuple[RecurrentDecodingStep, RecurrentState]:
        """Encode the source; see `DecodingModel.start`."""
        mask = padding_mask(source)
        memory = self.encode(source, mask)
        layers = [
            LstmState(*(tf.repeat(part, beam, axis=0) for part in state))
            for state in self._decoder.initial_states(memory)
        ]
        weights = self._fixed_weights if self._fixed else self._prepare_weights()
        step = RecurrentDecodingStep(self._decoder, self.target_embedding, weights, beam)
        return step, RecurrentState(layers, self._decoder.attention.source(memory, mask))

    def _prepare_weights(self) -> PreparedWeights:
        return PreparedWeights(self._decoder.attention_lstm_kernel(), self.output_projection())

    @functools.cached_property
    def _fixed_weights(self) -> PreparedWeights:
        with tf.init_scope():  # outside the graph that is being traced
            return self._prepare_weights()


class RecurrentDecodingStep:
    """Step function ``(tokens (R,), position, state) -> (logits (R, V) float32, state)``.

    Built by `RecurrentIncrementalDecoder.start`; see `interface.StepFunction`.
    """

    def __init__(
        self,
        decoder: RecurrentDecoder,
        embedding: TokenEmbedding,
        weights: PreparedWeights,
        beam: int,
    ) -> None:
        self._decoder = decoder
        self._embedding = embedding
        self._weights = weights
        self._beam = beam

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor | int, state: RecurrentState
    ) -> tuple[tf.Tensor, RecurrentState]:
        """Decode one position of each row; ``position`` is not used."""
        decoder = self._decoder
        x = self._embedding(tokens[:, None])[:, 0]  # (R, D)
        first, contexts, _ = decoder.attention_step(
            decoder.embedding_gates(x),
            state.layers[0],
            state.source,
            self._weights.attention_lstm_kernel,
            self._beam,
        )
        layers = [first]
        for cell, previous in zip(decoder.cells[1:], state.layers[1:], strict=True):
            layers.append(LstmState(*cell(layers[-1].hidden, *previous)))
        features = decoder.output_layer(layers[-1].hidden, contexts, x)  # (R, D)
        return self._weights.projection.logits(features), state._replace(layers=layers)

    def reorder(self, state: RecurrentState, parents: tf.Tensor) -> RecurrentState:
        """Let hypothesis w of sentence b continue hypothesis parents[b, w], (B, W) int64."""
        sentences = tf.range(tf.shape(parents, parents.dtype)[0])[:, None]
        rows = tf.reshape(sentences * self._beam + parents, [-1])  # (R,)
        return state._replace(layers=_gather(state.layers, rows))

    def select_and_reserve(
        self, state: RecurrentState, sentences: tf.Tensor | list[int], more: tf.Tensor | int
    ) -> RecurrentState:
        """Select sentences (b,) int32; further steps need no room."""
        sentences = tf.convert_to_tensor(sentences, tf.int32)
        rows = tf.reshape(sentences[:, None] * self._beam + tf.range(self._beam), [-1])  # (b * W,)
        return RecurrentState(_gather(state.layers, rows), _gather(state.source, sentences))


def _gather(parts: Any, rows: tf.Tensor) -> Any:
    """Return the given rows of each tensor."""
    return tf.nest.map_structure(lambda part: tf.gather(part, rows), parts)
