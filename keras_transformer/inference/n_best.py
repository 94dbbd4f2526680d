"""N-best lists: the best hypotheses with distinct texts.

Several hypotheses may have the same text, because it can be segmented in several ways and spaces
are normalised. The best of them is kept with its own score: scores are not added up.

Shapes: B batch, M hypotheses of the search, L tokens, N places of the list.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.inference.plain_text import plain
from keras_transformer.inference.search.hypotheses import NEG_INF, Hypotheses
from keras_transformer.inference.translation import Alternative, Translation


def read_translations(
    hypotheses: Hypotheses, target: LanguageTokenizer, search: SearchConfig
) -> list[Translation]:
    """Detokenise the hypotheses of a batch.

    Args:
        hypotheses: From ``generate.generate``.
        target: Tokenizer of the target language.
        search: Beam search keeps ``n_best`` distinct texts, sampling every sample.

    Returns:
        A translation for each sentence, without attention.
    """
    lengths, scores, finished = (
        values.numpy() for values in (hypotheses.lengths, hypotheses.scores, hypotheses.finished)
    )
    tokens = hypotheses.tokens.numpy().reshape(lengths.size, -1)  # (B * M, L)
    ids = [row[:length].tolist() for row, length in zip(tokens, lengths.flat, strict=True)]
    texts = [plain(text, target) for text in target.decode(ids)]
    count = lengths.shape[1]  # M
    translations = []
    for sentence in range(len(lengths)):
        group = texts[sentence * count : (sentence + 1) * count]
        # Empty places come last. If the constraints allow no token at all, the first hypothesis
        # has length 0 and is kept.
        real = max(int((lengths[sentence] > 0).sum()), 1)
        indices = range(real) if search.sample else distinct_indices(group[:real], search.n_best)
        best, *others = indices
        translations.append(
            Translation(
                text=group[best],
                score=float(scores[sentence, best]),
                finished=bool(finished[sentence, best]),
                alternatives=tuple(
                    Alternative(group[index], float(scores[sentence, index])) for index in others
                ),
            )
        )
    return translations


def distinct_indices(texts: Sequence[str], n_best: int) -> list[int]:
    """Return the indices of the first ``n_best`` distinct texts, or of all if there are fewer."""
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        first.setdefault(text, index)
    return list(first.values())[:n_best]


def select_distinct(
    texts: tf.Tensor, scores: tf.Tensor, lengths: tf.Tensor, n_best: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Select the hypotheses of ``distinct_indices`` in a graph.

    Args:
        texts: (B, M) string, hypotheses best first.
        scores: (B, M) float32.
        lengths: (B, M) int32, 0 in empty places.
        n_best: N, at most M.

    Returns:
        Texts (B, N) string and scores (B, N) float32, the best first; "" and -1e9 in empty
        places.
    """
    places = tf.range(tf.shape(texts)[1])
    earlier = places[:, None] > places  # (M, M)
    equal = tf.equal(texts[:, :, None], texts[:, None, :])  # (B, M, M)
    repeats = tf.reduce_any(equal & earlier, axis=2)
    # A first hypothesis of length 0 is kept: the constraints allow no token.
    distinct = ((lengths > 0) | (places == 0)) & ~repeats  # (B, M)
    # Among equal values top-k takes the first ones, so the order is kept.
    selected, order = tf.math.top_k(tf.cast(distinct, tf.int32), n_best)
    texts, scores = (tf.gather(values, order, batch_dims=1) for values in (texts, scores))
    real = selected > 0  # (B, N)
    return tf.where(real, texts, ""), tf.where(real, scores, NEG_INF)
