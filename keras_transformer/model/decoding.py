"""The network one target position at a time, for search.

What a step needs of earlier positions, keys and values of self-attention, stands in caches
with room for C positions and W rows for each sentence and position. A search that replaces a
hypothesis by an extension of another moves nothing there: each hypothesis has a list of
ancestors, the row that it came through at each position, and attends to these only.

Shapes: B batch, W rows of a sentence, R rows (B * W), S source length, T target length,
C capacity, H heads, K and K' widths of a key and a value, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.attention import KeysValues
from keras_transformer.model.decoder import Place
from keras_transformer.model.masks import additive, padding_mask
from keras_transformer.model.positions import alibi_bias

NOBODY = -1
"""The ancestor at positions that are still to come."""


class State(NamedTuple):
    """What a step needs besides its tokens."""

    ancestors: tf.Tensor
    """(B, W, C) int32: the row, 0 to W - 1, that each hypothesis came through."""
    past: list[KeysValues]
    """For each layer rows of keys (B * H * C, W * K) and values (B * H * C, W * K')."""
    memory: list[KeysValues]
    """For each layer keys (B, H, S, K) and values (B, H, S, K') of the source."""
    memory_bias: tf.Tensor
    """(B, H, W, S) float32: keeps attention away from padding of the source."""


class Decoding:
    """Step function of a Transformer.

    Args:
        model: A model from `transformer.build`.
    """

    def __init__(self, model: keras.Model) -> None:
        self._encoder = model.get_layer("encoder")
        self._decoder = model.get_layer("decoder")
        self._source_positions = model.get_layer("source_positions")
        self._target_positions = model.get_layer("target_positions")
        self._source_embedding = transformer.source_embedding(model)
        self._target_embedding = transformer.target_embedding(model)
        self._projection = transformer.projection(model)

    def start(self, source: tf.Tensor, beam: int = 1) -> tuple[Steps, State]:
        """Encode the source and prepare to decode.

        Args:
            source: (B, S) int32 source ids, each sentence with its end token, padded.
            beam: W, rows for each sentence.

        Returns:
            The step function, and the state before the first position, which has no room yet:
            see ``Steps.extend``.
        """
        mask = padding_mask(source)
        config = self._decoder.config
        shape = [1, config.heads, beam, 1]
        state = State(
            tf.zeros([tf.shape(source)[0], beam, 0], tf.int32),
            self._no_past(beam),
            self._decoder.remember(self._encode(source, mask), mask),
            tf.tile(additive(mask), shape),
        )
        return Steps(
            self._decoder, self._target_embedding, self._target_positions, self._projection, beam
        ), state

    def forward(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """All positions of given targets at once, with the attention to the encoder.

        Args:
            source: (B, S) int32 source ids, each sentence with its end token, padded.
            target: (B, T) int32 target ids, start token first, padded.

        Returns:
            The model's logits (B, T, V), and for each decoder layer the weights (B, H, T, S)
            float32 with which the token after each position is predicted.
        """
        mask = padding_mask(source)
        embedded = self._target_positions(self._target_embedding(target))
        features, weights = self._decoder(
            embedded,
            self._encode(source, mask),
            padding_mask(target),
            mask,
            return_weights=True,
        )
        return self._projection(features, reverse=True), weights

    def _encode(self, source: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        embedded = self._source_positions(self._source_embedding(source))
        return self._encoder(embedded, mask)  # (B, S, D)

    def _no_past(self, beam: int) -> list[KeysValues]:
        config, dtype = self._decoder.config, self._decoder.compute_dtype
        widths = config.key_width, config.value_width
        return [
            KeysValues(*(tf.zeros([0, beam * width], dtype) for width in widths))
            for _ in range(config.decoder_layers)
        ]


class Steps:
    """``(tokens (R,), position, state) -> (logits (R, V) float32, state)``, row b * W + w for
    hypothesis w of sentence b.

    Made by ``Decoding.start``. A step writes into the caches of the state that it is given:
    only the state that it returns may be used afterwards. It hides no earlier tokens: a row
    that is to be continued has no padding in it.
    """

    def __init__(
        self,
        decoder: keras.layers.Layer,
        embedding: keras.layers.Layer,
        positions: keras.layers.Layer,
        projection: keras.layers.Layer,
        beam: int,
    ) -> None:
        self._decoder = decoder
        self._embedding = embedding
        self._positions = positions
        self._beam = beam
        # The same in every step.
        self._joint_kernels = decoder.joint_kernels()
        self._columns = projection.columns()  # (D, V)

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor | int, state: State
    ) -> tuple[tf.Tensor, State]:
        """One position of every row; ``position`` must be below the capacity."""
        x = self._positions(self._embedding(tokens[:, None]), first=position)  # (R, 1, D)
        own = tf.range(self._beam)[:, None]
        now = tf.range(tf.shape(state.ancestors)[2]) == position
        ancestors = tf.where(now, own, state.ancestors)  # (B, W, C)
        place = self._place(position, ancestors, state.memory_bias)
        x = tf.reshape(x, [-1, x.shape[-1]])  # (R, D)
        x, past = self._decoder.step(x, self._joint_kernels, state.past, state.memory, place)
        logits = tf.cast(tf.matmul(x, self._columns), tf.float32)
        return logits, state._replace(ancestors=ancestors, past=past)

    def extend(self, state: State, length: tf.Tensor | int) -> State:
        """The state with room for ``length`` positions, at least as many as it has."""
        batch, _, capacity = tf.unstack(tf.shape(state.ancestors))
        more = length - capacity
        groups = batch * self._decoder.config.heads

        def wider(rows: tf.Tensor) -> tf.Tensor:
            width = rows.shape[1]
            # Written to in place, it must be new in each run: `Empty` is never made a constant.
            room = tf.raw_ops.Empty(shape=[groups, more * width], dtype=rows.dtype, init=True)
            grown = tf.concat([tf.reshape(rows, [groups, capacity * width]), room], axis=1)
            return tf.reshape(grown, [-1, width])

        return state._replace(
            ancestors=tf.pad(state.ancestors, [[0, 0], [0, 0], [0, more]], constant_values=NOBODY),
            past=tf.nest.map_structure(wider, state.past),
        )

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        """The state in which hypothesis w goes on from what was hypothesis parents[b, w].

        Args:
            state: Of some step.
            parents: (B, W) int32, each from 0 to W - 1.
        """
        return state._replace(ancestors=tf.gather(state.ancestors, parents, batch_dims=1))

    def keep(self, state: State, sentences: tf.Tensor) -> State:
        """The state of some of the sentences.

        Args:
            state: Of some step.
            sentences: (b,) int32, the sentences that are kept, in their new order.
        """
        batch = tf.shape(state.ancestors)[0]

        def kept(rows: tf.Tensor) -> tf.Tensor:
            width = rows.shape[1]
            each = tf.shape(rows)[0] // tf.maximum(batch, 1)
            own = tf.gather(tf.reshape(rows, [batch, each * width]), sentences)
            return tf.reshape(own, [-1, width])

        return State(
            tf.gather(state.ancestors, sentences),
            tf.nest.map_structure(kept, state.past),
            tf.nest.map_structure(lambda part: tf.gather(part, sentences), state.memory),
            tf.gather(state.memory_bias, sentences),
        )

    def _place(
        self, position: tf.Tensor | int, ancestors: tf.Tensor, memory_bias: tf.Tensor
    ) -> Place:
        heads, beam = self._decoder.config.heads, self._beam
        batch, _, capacity = tf.unstack(tf.shape(ancestors))
        visible = ancestors[..., None] == tf.range(beam)  # (B, W, C, W)
        slots = capacity * beam
        bias = additive(tf.reshape(visible, [-1, 1, beam, slots]))
        bias = tf.tile(bias, [1, heads, 1, 1])  # one addition of like shapes in each layer
        if self._decoder.config.positions == "alibi":
            bias += tf.repeat(alibi_bias(heads, 1, capacity, position), beam, axis=3)
        return Place(
            position, beam, slots, tf.range(batch * heads) * capacity + position, bias, memory_bias
        )
