"""What a served translator computes, in TensorFlow operations only.

Each row of a batch gets one answer, in order, which does not depend on the other rows.

Shapes: B batch, S source length, L output length, N translations of `nbest`.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.inference.alignment import attention_matrix
from keras_transformer.inference.inference_functions import constraints_of, shifted
from keras_transformer.inference.search import strategies as searches
from keras_transformer.inference.search.hypotheses import length_penalty
from keras_transformer.inference.translator import MAX_LOGITS
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.serving.saved_model.chunks import in_chunks
from keras_transformer.serving.saved_model.graph_tokenizer import Encoded, GraphTokenizer
from keras_transformer.serving.saved_model.weights import Weights

Outputs = dict[str, tf.Tensor]

_GREATEST_ALPHA = 10.0

_IDS = tf.TensorSpec([None, None], tf.int32)
_TEXTS = tf.TensorSpec([None], tf.string)
_NUMBERS = tf.TensorSpec([None], tf.float32)
_WHOLE = tf.TensorSpec([None], tf.int32)


class Signatures:
    """The functions behind the signatures; what they mean is said in `ServedTranslator`.

    Not a ``tf.Module``, and to be held by functions only: TensorFlow must not find the Keras
    objects here when it looks for what belongs to a SavedModel.

    Args:
        model: The network, whose layers have the dtype to compute in.
        weights: Its weights as they are stored.
        source: Tokenizer of what is read.
        target: Tokenizer of what is written.
        search: How to translate.
    """

    def __init__(
        self,
        model: keras.Model,
        weights: Weights,
        source: GraphTokenizer,
        target: GraphTokenizer,
        search: SearchConfig,
    ) -> None:
        self._source = source
        self._target = target
        self._search = search
        pieces = model.output_shape[-1]
        self._rows = max(MAX_LOGITS // (search.beam * pieces), 1)
        self._scored_tokens = min(search.batch_tokens, MAX_LOGITS // pieces)
        self._find = _search_function(model, weights, search)
        self._best = tf.function(
            self._best_of, input_signature=[_TEXTS, _NUMBERS, _WHOLE], autograph=False
        )
        self._force = _forcing_function(model, weights)

    def translate(self, text: tf.Tensor) -> Outputs:
        """The best translation of each text, (B,) string."""
        return self._best(text, *self._defaults(text))

    def options(self, text: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor) -> Outputs:
        """The best translation of each text under options of its own.

        Args:
            text: (B,) string.
            alpha: (B,) float32, length penalties.
            max_extra: (B,) int32, greatest lengths; at most the exported one.
        """
        # What makes no sense (NaN too) must harm no other row: it is moved to what does.
        alpha = tf.where(alpha >= 0.0, tf.minimum(alpha, _GREATEST_ALPHA), 0.0)
        return self._best(text, alpha, tf.clip_by_value(max_extra, 0, self._search.max_extra))

    def _best_of(self, text: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor) -> Outputs:
        encoded = self._source.encode(text)

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            source = _rows_of(encoded, rows)
            found = self._find(source, tf.gather(alpha, rows), tf.gather(max_extra, rows), 1)
            text = self._target.decode(found.tokens[:, 0])
            return [text, found.scores[:, 0], found.finished[:, 0]]

        empty = [tf.zeros([0], tf.string), tf.zeros([0]), tf.zeros([0], tf.bool)]
        translation, score, finished = self._sliced(compute, encoded, empty)
        return {
            "translation": translation,
            "score": score,
            "truncated": _truncated(encoded, finished),
        }

    def nbest(self, text: tf.Tensor) -> Outputs:
        """The best translations of each text, (B,) string."""
        encoded = self._source.encode(text)
        alpha, max_extra = self._defaults(text)
        count = self._search.n_best

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            source = _rows_of(encoded, rows)
            found = self._find(source, tf.gather(alpha, rows), tf.gather(max_extra, rows), count)
            return [self._target.decode(found.tokens), found.scores]

        empty = [tf.zeros([0, count], tf.string), tf.zeros([0, count])]
        translations, scores = self._sliced(compute, encoded, empty)
        return {"translations": translations, "scores": scores}

    def align(self, text: tf.Tensor) -> Outputs:
        """The best translation of each text, (B,) string, and where the network looked."""
        encoded = self._source.encode(text)
        alpha, max_extra = self._defaults(text)

        def compute(rows: tf.Tensor) -> list[tf.Tensor]:
            source = _rows_of(encoded, rows)
            found = self._find(source, tf.gather(alpha, rows), tf.gather(max_extra, rows), 1)
            longest = tf.reduce_max(found.lengths[:, 0])  # of the best: others may be longer
            tokens = found.tokens[:, 0, :longest]
            return [
                self._target.decode(tokens),
                found.scores[:, 0],
                found.finished[:, 0],
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
        found = dict(zip(names, self._sliced(compute, encoded, empty), strict=True))
        return found | {"truncated": _truncated(encoded, found.pop("finished"))}

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Outputs:
        """How probable each target is for its source, both (B,) string."""
        sources, targets = self._source.encode(source), self._target.encode(target)

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
        penalty = length_penalty(targets.lengths, self._search.alpha)
        return {
            "score": log_probability / penalty,
            "log_probability": log_probability,
            "tokens": targets.lengths,
        }

    def _defaults(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shape = tf.shape(text)
        return tf.fill(shape, float(self._search.alpha)), tf.fill(shape, self._search.max_extra)

    def _sliced(
        self,
        compute: Callable[[tf.Tensor], list[tf.Tensor]],
        encoded: Encoded,
        empty: list[tf.Tensor],
    ) -> list[tf.Tensor]:
        lengths = tf.where(_blank(encoded), 0, encoded.lengths)
        return in_chunks(
            compute, lengths, tokens=self._search.batch_tokens, rows=self._rows, empty=empty
        )


# One search and one forward pass for all signatures: each is a thousand operations.


def _search_function(
    model: keras.Model, weights: Weights, search: SearchConfig
) -> Callable[..., searches.Hypotheses]:
    decoding = IncrementalDecoder(model)

    @tf.function(
        input_signature=[_IDS, _NUMBERS, _WHOLE, tf.TensorSpec([], tf.int32)], autograph=False
    )
    def find(
        source: tf.Tensor, alpha: tf.Tensor, max_extra: tf.Tensor, wanted: tf.Tensor
    ) -> searches.Hypotheses:
        with weights.applied():
            step, state = decoding.start(source, search.beam)
            return searches.beam_search(
                step,
                state,
                searches.length_limits(source, max_extra),
                beam=search.beam,
                alpha=alpha,
                n_best=search.n_best,
                wanted=wanted,
                constraints=constraints_of(search),
            )

    return find


def _forcing_function(
    model: keras.Model, weights: Weights
) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    decoding = IncrementalDecoder(model)

    @tf.function(input_signature=[_IDS, _IDS], autograph=False)
    def force(source: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(B,) log P(labels | source), and (B, L, S) attention."""
        with weights.applied():
            logits, attention = decoding.forward(source, shifted(labels))
        log_probabilities = searches.forced_log_probabilities(logits, labels)
        return tf.reduce_sum(log_probabilities, axis=1), attention_matrix(attention, labels)

    return force


def _rows_of(encoded: Encoded, rows: tf.Tensor) -> tf.Tensor:
    """(b, S) ids of some rows, no wider than the longest of them."""
    longest = tf.reduce_max(tf.gather(encoded.lengths, rows))
    return tf.gather(encoded.ids[:, :longest], rows)


def _blank(encoded: Encoded) -> tf.Tensor:
    return encoded.lengths == 1  # END alone


def _truncated(encoded: Encoded, finished: tf.Tensor) -> tf.Tensor:
    """(B,): whether the translation is of a part of the text only."""
    return ~_blank(encoded) & (encoded.cut | ~finished)
