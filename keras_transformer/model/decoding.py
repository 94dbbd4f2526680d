"""The network one target position at a time, for search."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_transformer.model import transformer
from keras_transformer.model.attention import KeysValues
from keras_transformer.model.masks import look_ahead_mask, padding_mask

State = list[KeysValues]
Step = Callable[[tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]


class Decoding:
    """Step function of a Transformer.

    The state is passed in and out and nothing is kept on a layer, so that a search may
    reorder, drop or repeat rows as it likes.

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

    def start(self, source: tf.Tensor, beam: int = 1) -> tuple[Step, State]:
        """Encode the source and prepare to decode.

        Args:
            source: (B, S) int32 source ids, each sentence with its end token, padded.
            beam: W, rows for each sentence.

        Returns:
            A step function, ``(tokens (R,), position, state) -> (logits (R, V), state)``
            with R = B * W and row b * W + w, and the state before the first position:
            for each layer keys and values (R, H, t, K), of which t grows from 0 by one a
            step; a loop in a graph must leave it open (``shape_invariants``). A step hides
            no earlier tokens: a row that is to be continued has no padding in it.
        """
        mask = padding_mask(source)
        memory = self._decoder.remember(self._encode(source, mask), mask)

        def step(tokens: tf.Tensor, position: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
            x = self._target_embedding(tokens[:, None])  # (R, 1, D)
            x = self._target_positions(x, first=position)
            x, state = self._decoder.step(x, state, memory, position, beam)
            x = tf.reshape(x, [-1, x.shape[-1]])  # (R, D)
            return self._projection(x, reverse=True), state  # (R, V)

        return step, self._empty_state(tf.shape(source)[0] * beam)

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
            padding_mask(target) & look_ahead_mask(tf.shape(target)[1]),
            mask,
            return_weights=True,
        )
        return self._projection(features, reverse=True), weights

    def _encode(self, source: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        embedded = self._source_positions(self._source_embedding(source))
        return self._encoder(embedded, mask)  # (B, S, D)

    def _empty_state(self, rows: tf.Tensor) -> State:
        config, dtype = self._decoder.config, self._decoder.compute_dtype

        def empty(width: int) -> tf.Tensor:
            return tf.zeros([rows, config.heads, 0, width], dtype)

        return [
            KeysValues(empty(config.key_width), empty(config.value_width))
            for _ in range(config.decoder_layers)
        ]
