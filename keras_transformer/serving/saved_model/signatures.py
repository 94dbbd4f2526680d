"""Computation of the exported signatures, in TensorFlow operations only.

Each row of a batch gets one result, in order, which does not depend on the other rows.

Shapes: B batch, b rows of a chunk, S source length, L output length, M hypotheses of the
search, N translations of `nbest`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.inference.alignment import attention_matrix
from keras_transformer.inference.inference_functions import shift_right
from keras_transformer.inference.n_best import select_distinct
from keras_transformer.inference.search.generate import generate
from keras_transformer.inference.search.hypotheses import Hypotheses
from keras_transformer.inference.search.scoring import forced_log_probabilities, length_penalty
from keras_transformer.inference.translator import MAX_LOGITS
from keras_transformer.model.incremental.factory import incremental_decoder
from keras_transformer.serving.saved_model.chunks import in_chunks
from keras_transformer.serving.saved_model.graph_tokenizer import Encoded, GraphTokenizer
from keras_transformer.serving.saved_model.weights import Weights

Outputs = dict[str, tf.Tensor]

_MAX_ALPHA = 10.0

_IDS = tf.TensorSpec([None, None], tf.int32)
_TEXTS = tf.TensorSpec([None], tf.string)
_FLOATS = tf.TensorSpec([None], tf.float32)
_INTEGERS = tf.TensorSpec([None], tf.int32)


class Signatures:
    """Functions of the signatures that `ServedTranslator` documents.

    This is not a ``tf.Module``, and only functions may refer to it: TensorFlow must not track its
    Keras objects as parts of the SavedModel.

    Args:
        model: The network, whose layers have the dtype to compute in.
        weights: Its weights as they are stored.
        source: Tokenizer of the source language.
        target: Tokenizer of the target language.
        search: Beam search options; N is ``search.n_best``.
        forbidden: Ids that are never generated.
        source_end: ``data.source_end``: whether each source ends in END.
    """

    def __init__(
        self,
        model: keras.Model,
        weights: Weights,
        source: GraphTokenizer,
        target: GraphTokenizer,
        search: SearchConfig,
        forbidden: Sequence[int],
        source_end: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._search = search
        self._source_end = source_end
        vocabulary_size = model.output_shape[-1]
        self._rows = max(MAX_LOGITS // (search.beam * vocabulary_size), 1)
        self._scored_tokens = min(search.batch_tokens, MAX_LOGITS // vocabulary_size)
        self._generate = _generate_function(model, weights, search, forbidden, source_end)
        self._best = tf.function(
            self._best_of, input_signature=[_TEXTS, _FLOATS, _INTEGERS], autograph=False
        )
        self._force = _force_function(model, weights)

    def translate(self, text: tf.Tensor) -> Outputs:
        """Translate each text, (B,) string."""
        return self._best(text, *self._defaults(text))

    def options(self, text: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor) -> Outputs:
        """Translate each text with its own options.

        Args:
            text: (B,) string.
            alpha: (B,) float32, strengths of the length penalty.
            max_extra: (B,) int32, tokens more than the source; at most the exported value.
        """
        # Invalid values (NaN too) must not fail the other rows: they are clipped.
        alpha = tf.where(alpha >= 0.0, tf.minimum(alpha, _MAX_ALPHA), 0.0)
        return self._best(text, alpha, tf.clip_by_value(max_extra, 0, self._search.max_extra))

    def _best_of(self, text: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor) -> Outputs:
        encoded = self._source.encode(text, self._source_end)

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            source = _rows_of(encoded, rows)
            best = self._generate(source, tf.gather(alpha, rows), tf.gather(max_extra, rows), 1)
            text = self._target.decode(best.tokens[:, 0])
            return [text, best.scores[:, 0], best.finished[:, 0]]

        empty = [tf.zeros([0], tf.string), tf.zeros([0]), tf.zeros([0], tf.bool)]
        translation, score, finished = self._in_chunks(compute, encoded, empty)
        return {
            "translation": translation,
            "score": score,
            "truncated": _truncated(encoded, finished),
        }

    def nbest(self, text: tf.Tensor) -> Outputs:
        """Return the best distinct translations of each text, (B,) string."""
        encoded = self._source.encode(text, self._source_end)
        alpha, max_extra = self._defaults(text)
        count = self._search.n_best

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            source = _rows_of(encoded, rows)
            hypotheses = self._generate(
                source, tf.gather(alpha, rows), tf.gather(max_extra, rows), count
            )
            texts = self._target.decode(hypotheses.tokens)  # (b, M)
            return list(select_distinct(texts, hypotheses.scores, hypotheses.lengths, count))

        empty = [tf.zeros([0, count], tf.string), tf.zeros([0, count])]
        translations, scores = self._in_chunks(compute, encoded, empty)
        return {"translations": translations, "scores": scores}

    def align(self, text: tf.Tensor) -> Outputs:
        """Translate each text, (B,) string, and return the attention."""
        encoded = self._source.encode(text, self._source_end)
        alpha, max_extra = self._defaults(text)

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            source = _rows_of(encoded, rows)
            best = self._generate(source, tf.gather(alpha, rows), tf.gather(max_extra, rows), 1)
            longest = tf.reduce_max(best.lengths[:, 0])  # other hypotheses may be longer
            tokens = best.tokens[:, 0, :longest]
            return [
                self._target.decode(tokens),
                best.scores[:, 0],
                best.finished[:, 0],
                self._source.pieces(source),
                self._target.pieces(tokens),
                self._force(source, tokens)[1],
            ]

        empty = [
            *(tf.zeros([0], kind) for kind in (tf.string, tf.float32, tf.bool)),
            *(tf.zeros([0, 0], tf.string) for _ in range(2)),
            tf.zeros([0, 0, 0]),
        ]
        names = ["translation", "score", "finished", "source_pieces", "target_pieces", "attention"]
        outputs = dict(zip(names, self._in_chunks(compute, encoded, empty), strict=True))
        return outputs | {"truncated": _truncated(encoded, outputs.pop("finished"))}

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Outputs:
        """Return the forced score of each target for its source, both (B,) string."""
        sources = self._source.encode(source, self._source_end)
        targets = self._target.encode(target)

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            return [self._force(_rows_of(sources, rows), _rows_of(targets, rows))[0]]

        lengths = tf.maximum(sources.lengths, targets.lengths)
        (log_probability,) = in_chunks(
            compute,
            lengths,
            tokens=self._scored_tokens,
            rows=self._scored_tokens,
            empty=[tf.zeros([0])],
        )
        penalty = length_penalty(targets.lengths, self._search.alpha, self._search.length_penalty)
        return {
            "score": log_probability / penalty,
            "log_probability": log_probability,
            "tokens": targets.lengths,
        }

    def _defaults(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shape = tf.shape(text)
        return tf.fill(shape, float(self._search.alpha)), tf.fill(shape, self._search.max_extra)

    def _in_chunks(
        self,
        compute: Callable[[tf.Tensor], list[tf.Tensor]],
        encoded: Encoded,
        empty: list[tf.Tensor],
    ) -> list[tf.Tensor]:
        lengths = tf.where(encoded.blank, 0, encoded.lengths)
        return in_chunks(
            compute, lengths, tokens=self._search.batch_tokens, rows=self._rows, empty=empty
        )


# All signatures share one search and one forward pass, of a thousand operations each.


def _generate_function(
    model: keras.Model,
    weights: Weights,
    search: SearchConfig,
    forbidden: Sequence[int],
    source_end: bool,
) -> Callable[..., Hypotheses]:
    decoder = incremental_decoder(model)

    @tf.function(
        input_signature=[_IDS, _FLOATS, _INTEGERS, tf.TensorSpec([], tf.int32)], autograph=False
    )
    def search_ids(
        source: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor, required: tf.Tensor
    ) -> Hypotheses:
        with weights.applied():
            return generate(
                decoder.start,
                source,
                search,
                alpha=alpha,
                max_extra=max_extra,
                required=required,
                forbidden=forbidden,
                source_end=source_end,
            )

    return search_ids


def _force_function(
    model: keras.Model, weights: Weights
) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    decoder = incremental_decoder(model)

    @tf.function(input_signature=[_IDS, _IDS], autograph=False)
    def force(source: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return (B,) log P(labels | source), and (B, L, S) attention."""
        with weights.applied():
            logits, attention = decoder.forward(source, shift_right(labels))
        log_probabilities = forced_log_probabilities(logits, labels)
        return tf.reduce_sum(log_probabilities, axis=1), attention_matrix(attention, labels)

    return force


def _rows_of(encoded: Encoded, rows: tf.Tensor) -> tf.Tensor:
    """Return the ids of some rows, (b, S), no wider than the longest of them."""
    longest = tf.reduce_max(tf.gather(encoded.lengths, rows))
    return tf.gather(encoded.ids[:, :longest], rows)


def _truncated(encoded: Encoded, finished: tf.Tensor) -> tf.Tensor:
    """Return whether each text or translation was cut, (B,) bool."""
    return ~encoded.blank & (encoded.cut | ~finished)
