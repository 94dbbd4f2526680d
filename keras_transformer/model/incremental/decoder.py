"""The network one target position at a time, for search.

What a step needs of earlier positions, keys and values of self-attention, stands in caches
with C times W slots for each sentence: a step fills the next W, one for each hypothesis. A
search that replaces a hypothesis by an extension of another moves nothing there: each
hypothesis attends to the slots that it came through, and to no others. Whenever the caches
get room, the slots that nobody sees any more are given up. As the live hypotheses soon have
all but their last words in common, about one slot a position stays, and not W.

Shapes: B batch, W rows of a sentence, R rows (B * W), S source length, T target length,
C capacity in steps, H heads, K and K' widths of a key and a value, D model width, V vocabulary.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.attention import KeysValues
from keras_transformer.model.decoder import StepContext
from keras_transformer.model.masks import MASK_VALUE, additive, padding_mask
from keras_transformer.model.positions import alibi_bias_at


class State(NamedTuple):
    """What a step needs besides its tokens."""

    visible: tf.Tensor
    """(B, W, C * W) float32: added to scores, 0 at the slots that a hypothesis came through."""
    positions: tf.Tensor
    """(B, C * W) int32: the position that each slot is of."""
    filled: tf.Tensor
    """() int32: how often W slots have been filled; the next step fills those after them."""
    past: list[KeysValues]
    """For each layer rows of keys (B * H * C, W * K) and values (B * H * C, W * K')."""
    memory: list[KeysValues]
    """For each layer keys (B, H, K, S) and values (B, H, S, K') of the source."""
    memory_bias: tf.Tensor
    """(B, H, W, S) float32: keeps attention away from padding of the source."""


class Kernels(NamedTuple):
    """What is made of the weights, the same in every step."""

    joint: list[tf.Tensor]
    """For each layer `MultiHeadAttention.joint_kernel` of its self-attention."""
    columns: tf.Tensor
    """(D, V), the output projection."""


class IncrementalDecoder:
    """Step function of a Transformer.

    Args:
        model: A model from `transformer.build`.
        fixed: The weights stay as they are when the first search is made. What each search
            makes of them, and would make anew in each call, is then kept: as much memory again
            as the output projection and the decoder's self-attention take.
    """

    def __init__(self, model: keras.Model, fixed: bool = False) -> None:
        self._fixed = fixed
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
            see ``Steps.select_and_reserve``.
        """
        mask = padding_mask(source)
        config = self._decoder.config
        shape = [1, config.heads, beam, 1]
        batch = tf.shape(source)[0]
        state = State(
            tf.zeros([batch, beam, 0]),
            tf.zeros([batch, 0], tf.int32),
            tf.constant(0),
            self._no_past(beam),
            self._decoder.cross_attention_cache(self._encode(source, mask), mask),
            tf.tile(additive(mask), shape),
        )
        kernels = self._kept_kernels if self._fixed else self._kernels()
        steps = Steps(self._decoder, self._target_embedding, self._target_positions, kernels, beam)
        return steps, state

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

    def _kernels(self) -> Kernels:
        return Kernels(self._decoder.joint_kernels(), self._projection.columns())

    @functools.cached_property
    def _kept_kernels(self) -> Kernels:
        with tf.init_scope():  # outside of the graph that is being made
            return self._kernels()

    def _encode(self, source: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        embedded = self._source_positions(self._source_embedding(source))
        return self._encoder(embedded, mask)  # (B, S, D)

    def _no_past(self, beam: int) -> list[KeysValues]:
        config, dtype = self._decoder.config, self._decoder.compute_dtype
        widths = config.key_width, config.value_width

        def nothing(width: int) -> tf.Tensor:
            # A row that `select_and_reserve` may copy where there is nothing. Its copies are
            # written to in place and must be new in each run: `Empty` is never made a constant.
            return tf.raw_ops.Empty(shape=[1, beam * width], dtype=dtype, init=True)

        return [
            KeysValues(*(nothing(width) for width in widths)) for _ in range(config.decoder_layers)
        ]


class Steps:
    """``(tokens (R,), position, state) -> (logits (R, V) float32, state)``, row b * W + w for
    hypothesis w of sentence b.

    Made by ``IncrementalDecoder.start``. A step writes into the caches of the state that it is
    given: only the state that it returns may be used afterwards. It hides no earlier tokens: a row
    that is to be continued has no padding in it.
    """

    def __init__(
        self,
        decoder: keras.layers.Layer,
        embedding: keras.layers.Layer,
        positions: keras.layers.Layer,
        kernels: Kernels,
        beam: int,
    ) -> None:
        self._decoder = decoder
        self._embedding = embedding
        self._positions = positions
        self._beam = beam
        self._alibi = decoder.config.positions == "alibi"
        self._kernels = kernels

    def __call__(
        self, tokens: tf.Tensor, position: tf.Tensor | int, state: State
    ) -> tuple[tf.Tensor, State]:
        """One position of every row, for which there must be room: see ``select_and_reserve``."""
        x = self._positions(self._embedding(tokens[:, None]), first=position)  # (R, 1, D)
        slots = tf.shape(state.visible)[2]
        new = tf.range(slots) - state.filled * self._beam  # 0 to W - 1 at those of this step
        own = additive(new == tf.range(self._beam)[:, None])  # (W, C * W)
        state = state._replace(visible=tf.maximum(state.visible, own), filled=state.filled + 1)
        if self._alibi:
            state = state._replace(positions=tf.where(new >= 0, position, state.positions))
        x = tf.reshape(x, [-1, x.shape[-1]])  # (R, D)
        context = self._step_context(position, state)
        x, past = self._decoder.step(x, self._kernels.joint, state.past, state.memory, context)
        logits = tf.cast(tf.matmul(x, self._kernels.columns), tf.float32)
        return logits, state._replace(past=past)

    def reorder(self, state: State, parents: tf.Tensor) -> State:
        """The state in which hypothesis w goes on from what was hypothesis parents[b, w].

        Args:
            state: Of some step.
            parents: (B, W) int32, each from 0 to W - 1.
        """
        return state._replace(visible=tf.gather(state.visible, parents, batch_dims=1))

    def select_and_reserve(
        self, state: State, sentences: tf.Tensor | list[int], more: tf.Tensor | int
    ) -> State:
        """The state of some of the sentences, with room for further steps.

        Args:
            state: Before the first step, or of some step.
            sentences: (b,) int32, the sentences that are kept, in their new order.
            more: How many steps there must be room for.
        """
        heads, beam = self._decoder.config.heads, self._beam
        sentences = tf.convert_to_tensor(sentences, tf.int32)
        slots = tf.shape(state.visible)[2]
        visible = tf.gather(state.visible, sentences)
        chosen = self._seen(visible, state.filled)  # (b, P * W)
        rows = sentences[:, None] * heads + tf.range(heads)  # (b, H)
        rows = tf.reshape(rows, [-1, 1]) * slots + tf.repeat(chosen, heads, axis=0)
        # One copy of what stays; what stands in the new slots, any numbers, nobody sees.
        rows = tf.pad(rows, [[0, 0], [0, more * beam]])  # (b * H, C * W)

        def moved(part: tf.Tensor) -> tf.Tensor:
            width = part.shape[1]
            each = tf.gather(tf.reshape(part, [-1, width // beam]), rows)
            return tf.reshape(each, [-1, width])

        visible = tf.gather(visible, chosen, axis=2, batch_dims=1)
        positions = tf.gather(tf.gather(state.positions, sentences), chosen, batch_dims=1)
        return State(
            tf.pad(visible, [[0, 0], [0, 0], [0, more * beam]], constant_values=MASK_VALUE),
            tf.pad(positions, [[0, 0], [0, more * beam]]),
            tf.shape(chosen)[1] // beam,
            tf.nest.map_structure(moved, state.past),
            tf.nest.map_structure(lambda part: tf.gather(part, sentences), state.memory),
            tf.gather(state.memory_bias, sentences),
        )

    def _seen(self, visible: tf.Tensor, filled: tf.Tensor) -> tf.Tensor:
        """The slots that some row sees, (b, P * W) int32.

        They are as many for each sentence: others fill up what a sentence has less.
        """
        if self._beam == 1:
            return tf.tile(tf.range(filled)[None], [tf.shape(visible)[0], 1])
        seen = tf.cast(tf.reduce_max(visible, axis=1) == 0.0, tf.int32)  # (b, C * W)
        most = tf.reduce_max(tf.reduce_sum(seen, axis=1))
        steps = (most + self._beam - 1) // self._beam  # P
        steps = tf.clip_by_value(steps, 0, filled)  # no sentence, no maximum
        # Of equal values the first come first: the slots stay in their order.
        return tf.math.top_k(seen, steps * self._beam).indices

    def _step_context(self, position: tf.Tensor | int, state: State) -> StepContext:
        """Of a state in which the slots of this step are visible."""
        heads, beam = self._decoder.config.heads, self._beam
        batch, _, slots = tf.unstack(tf.shape(state.visible))
        # One addition of like shapes in each layer.
        bias = tf.tile(state.visible[:, None], [1, heads, 1, 1])
        if self._alibi:
            bias += alibi_bias_at(heads, position, state.positions)
        rows = tf.range(batch * heads) * (slots // beam) + state.filled - 1
        return StepContext(position, beam, slots, rows, bias, state.memory_bias)
