"""Incremental decoding of the Transformer: the step function of a search."""

from __future__ import annotations

import functools
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model.decoder import Decoder, DecoderLayer
from keras_transformer.model.incremental import attention, caches
from keras_transformer.model.incremental.attention import JointProjection, StepContext
from keras_transformer.model.incremental.caches import DecoderState, KeysValues
from keras_transformer.model.incremental.interface import DecodingModel, OutputProjection
from keras_transformer.model.masks import padding_mask


class PreparedWeights(NamedTuple):
    """Weights in the form that a step uses."""

    joint_projections: list[JointProjection]
    """For each layer, the `attention.joint_projection` of its self-attention."""
    projection: OutputProjection


class IncrementalDecoder(DecodingModel):
    """Incremental decoding of the Transformer.

    Args:
        model: A Transformer from `transformer.build`.
        fixed: Whether the weights never change after the first search. They are then prepared
            once instead of in each search, for a second copy of the output projection and of the
            decoder's self-attention kernels in memory.
    """

    def __init__(self, model: keras.Model, fixed: bool = False) -> None:
        super().__init__(model)
        self._fixed = fixed
        self._decoder: Decoder = model.get_layer("decoder")
        self._config = self._decoder.config.side("decoder")

    def start(self, source: tf.Tensor, beam: int = 1) -> tuple[DecodingStep, DecoderState]:
        """Encode the source.

        Args:
            source: (B, S) int32 source ids, each sentence with its end token, padded.
            beam: W, rows for each sentence.

        Returns:
            The step function and the state before the first position. The state has no room
            for a step yet: see `DecodingStep.select_and_reserve`.
        """
        mask = padding_mask(source)
        batch = tf.shape(source)[0]
        memory = self.encode(source, mask)
        state = DecoderState(
            tf.zeros([batch, beam, 0]),
            tf.zeros([batch, 0], tf.int32),
            tf.constant(0),
            self._empty_caches(beam),
            [
                attention.cross_attention_cache(layer.cross_attention, memory, mask)
                for layer in self._decoder.layers
            ],
            tf.tile(caches.additive_mask(mask), [1, self._config.heads, beam, 1]),
        )
        weights = self._fixed_weights if self._fixed else self._prepare_weights()
        step = DecodingStep(
            self._decoder, self.target_embedding, self.target_positions, weights, beam
        )
        return step, state

    def _prepare_weights(self) -> PreparedWeights:
        joint = [attention.joint_projection(layer.self_attention) for layer in self._decoder.layers]
        return PreparedWeights(joint, self.output_projection())

    @functools.cached_property
    def _fixed_weights(self) -> PreparedWeights:
        with tf.init_scope():  # outside the graph that is being traced
            return self._prepare_weights()

    def _empty_caches(self, beam: int) -> list[KeysValues]:
        config, dtype = self._config, self._decoder.compute_dtype
        widths = config.key_width, config.value_width
        return [
            KeysValues(*(caches.empty_rows(beam * width, dtype) for width in widths))
            for _ in self._decoder.layers
        ]


class DecodingStep:
    """Step function ``(tokens (R,), position, state) -> (logits (R, V) float32, state)``.

    Built by `IncrementalDecoder.start`. Row b * W + w is hypothesis w of sentence b. A step
    writes into the caches of the given state, so that only the returned state may be used
    afterwards. Padding before a row's last token is not masked.
    """

    def __init__(
        self,
        decoder: Decoder,
        embedding: keras.layers.Layer,
        positions: keras.layers.Layer,
        weights: PreparedWeights,
        beam: int,
    ) -> None:
        self._decoder = decoder
        self._embedding = embedding
        self._positions = positions
        self._weights = weights
        self._beam = beam
        self_attention = decoder.layers[0].self_attention
        self._heads = self_attention.heads
        self._score_bias = self_attention.score_bias
        self._has_score_bias = self._score_bias(tf.zeros([1, 1], tf.int32)) is not None

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor | int, state: DecoderState
    ) -> tuple[tf.Tensor, DecoderState]:
        """Decode one position of every row; the state must have room for it."""
        x = self._positions(self._embedding(tokens[:, None]), first=position)  # (R, 1, D)
        x = tf.reshape(x, [-1, x.shape[-1]])  # (R, D)
        state, index = caches.begin_step(state, self._beam)
        if self._has_score_bias:
            state = state._replace(positions=tf.where(index >= 0, position, state.positions))
        context = self._context(position, state)
        updated = []
        for layer, joint, past, source in zip(
            self._decoder.layers,
            self._weights.joint_projections,
            state.self_attention,
            state.cross_attention,
            strict=True,
        ):
            x, cache = _decode_layer(layer, x, joint, past, source, context)
            updated.append(cache)
        features = self._decoder.apply_final_norm(x)  # (R, D)
        return self._weights.projection.logits(features), state._replace(self_attention=updated)

    def reorder(self, state: DecoderState, parents: tf.Tensor) -> DecoderState:
        """Let hypothesis w of sentence b continue hypothesis parents[b, w], (B, W) int64."""
        return caches.reorder(state, parents)

    def select_and_reserve(
        self, state: DecoderState, sentences: tf.Tensor | list[int], more: tf.Tensor | int
    ) -> DecoderState:
        """Select sentences (b,) int32 and make room for ``more`` further steps."""
        return caches.select_and_reserve(state, sentences, more, self._heads, self._beam)

    def _context(self, position: tf.Tensor | int, state: DecoderState) -> StepContext:
        """Return the inputs that all layers share; the slots of this step are visible already."""
        batch, _, slots = tf.unstack(tf.shape(state.visible))
        # Tiling once is faster than broadcasting in the addition of each layer.
        bias = tf.tile(state.visible[:, None], [1, self._heads, 1, 1])  # (B, H, W, C * W)
        if self._has_score_bias:
            bias += self._score_bias((position - state.positions)[:, None])  # (B, H, 1, C * W)
        capacity = slots // self._beam
        rows = tf.range(batch * self._heads) * capacity + state.filled - 1
        return StepContext(position, self._beam, slots, rows, bias, state.source_bias)


def _decode_layer(
    layer: DecoderLayer,
    x: tf.Tensor,
    joint: JointProjection,
    self_attention_cache: KeysValues,
    cross_attention_cache: KeysValues,
    context: StepContext,
) -> tuple[tf.Tensor, KeysValues]:
    """Apply one decoder layer to one position, (R, D); see `DecoderLayer.call`."""
    cache = self_attention_cache

    def attend_to_past(y: tf.Tensor) -> tf.Tensor:
        nonlocal cache
        output, cache = attention.self_attention_step(
            layer.self_attention, y, joint, self_attention_cache, context
        )
        return output

    def attend_to_source(y: tf.Tensor) -> tf.Tensor:
        return attention.cross_attention_step(
            layer.cross_attention, y, cross_attention_cache, context
        )

    x = layer.self_attention_connection(x, sublayer=attend_to_past)
    x = layer.cross_attention_connection(x, sublayer=attend_to_source)
    x = layer.feed_forward_connection(x, sublayer=layer.feed_forward)
    return x, cache
