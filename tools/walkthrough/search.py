"""Second half of the first part: from logits to the text, token by token.

Shapes: B batch (1), W beam width, V vocabulary, T tokens so far.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.inference_functions import shift_right
from keras_transformer.inference.search.beam import BeamSearch
from keras_transformer.inference.search.constraints import Constraints
from keras_transformer.inference.search.hypotheses import INVALID_BELOW, Hypotheses
from keras_transformer.inference.search.scoring import length_penalty
from keras_transformer.inference.search.strategies import length_limits
from keras_transformer.model.incremental.decoder import IncrementalDecoder
from keras_transformer.special_tokens import END, START
from tools.generated_blocks import table
from tools.walkthrough.formatting import hexadecimal, number, pieces, vector

TOP = 4
"""Tokens shown at each step."""


class Beam(NamedTuple):
    """Hypotheses after one step of the beam search."""

    live: list[tuple[list[int], float]]
    """Tokens without START and log-probability of each live hypothesis, best first."""
    finished: list[tuple[list[int], float, float]]
    """Tokens with END, log-probability and score of each finished hypothesis, best first."""


def step_logits(model: keras.Model, source: tf.Tensor, labels: tf.Tensor) -> np.ndarray:
    """Return the logits (T, V) of incremental decoding with the given tokens."""
    step, state = IncrementalDecoder(model).start(source)
    length = labels.shape[1]
    state = step.select_and_reserve(state, [0], length)
    rows = []
    for position, token in enumerate(shift_right(labels)[0]):
        logits, state = step(token[None], tf.constant(position), state)
        rows.append(logits[0].numpy())
    return np.stack(rows)


def beams(
    model: keras.Model, source: tf.Tensor, search: SearchConfig
) -> tuple[list[Beam], Hypotheses]:
    """Return the hypotheses after each step of the beam search, and its result."""
    step, state = IncrementalDecoder(model).start(source, search.beam)
    limits = tf.cast(length_limits(source, search.max_extra), tf.int64)
    beam = BeamSearch(
        steps=step,
        limits=limits,
        beam=search.beam,
        alpha=tf.fill([1], search.alpha),
        form=search.length_penalty,
        size=search.n_best,
        required=tf.constant(search.n_best),
        start=START,
        end=END,
        constraints=Constraints().bind(limits, search.beam, END),
    )
    loop = beam.select_and_reserve(beam.initial(state), tf.range(1), int(limits[0]))
    steps = []
    while not bool(beam.done(loop)[0]):
        loop = beam.advance(loop)
        live = zip(loop.live.tokens[0].numpy(), loop.live.log_probabilities[0].numpy(), strict=True)
        ended = zip(
            loop.finished.tokens[0].numpy(),
            loop.finished.log_probabilities[0].numpy(),
            loop.finished.scores[0].numpy(),
            strict=True,
        )
        steps.append(
            Beam(
                [(row[1:].tolist(), float(value)) for row, value in live if value > INVALID_BELOW],
                [
                    (row[1 : row.tolist().index(END) + 1].tolist(), float(value), float(score))
                    for row, value, score in ended
                    if score > INVALID_BELOW
                ],
            )
        )
    return steps, beam.result(loop)


def search_blocks(
    model: keras.Model, tokenizer: Tokenizer, search: SearchConfig, source: tf.Tensor
) -> tuple[dict[str, str], tf.Tensor]:
    """Return the blocks about logits, beam search and detokenization, and the labels (1, T)."""
    steps, result = beams(model, source, search)
    length = int(result.lengths[0, 0])
    labels = tf.cast(result.tokens[:1, 0, :length], tf.int32)  # (1, T)
    logits = step_logits(model, source, labels)
    full = model({"source": source, "target": shift_right(labels)}, training=False)[0].numpy()
    if not np.allclose(logits, full, atol=1e-3):
        raise ValueError("logits: expected those of the full pass from incremental decoding")
    ids = labels[0].numpy().tolist()
    text = tokenizer.target.decode([ids])[0]
    log_probability, score = float(result.log_probabilities[0, 0]), float(result.scores[0, 0])
    penalty = float(length_penalty(tf.constant(length), search.alpha, search.length_penalty))
    return {
        "logits": _logits(full[0], tokenizer),
        "steps": _steps(full, ids, tokenizer),
        "beam": _beams(steps, tokenizer),
        "score": f"```text\nlog P          {number(log_probability)}\n"
        f"penalty        ((5 + {length}) / 6)^{search.alpha} = {number(penalty)}\n"
        f"score          {number(log_probability)} / {number(penalty)} = {number(score)}\n```",
        "text": table(
            ["ids", "pieces", "text", "UTF-8 bytes"],
            [
                [
                    ", ".join(map(str, ids)),
                    " ".join(pieces(tokenizer.target, ids)),
                    text,
                    hexadecimal(text),
                ]
            ],
        ),
    }, labels


def _logits(row: np.ndarray, tokenizer: Tokenizer) -> str:
    """Return the way from the logits of the first position to log-probabilities."""
    best = np.argsort(-row)[:TOP]
    total = float(np.log(np.exp(row - row.max()).sum()) + row.max())
    cells = [
        [
            name,
            number(row[token], 2),
            number(row[token] - total),
            number(np.exp(row[token] - total), 4),
        ]
        for name, token in zip(pieces(tokenizer.target, best), best, strict=True)
    ]
    head = f"Logits, ({len(row):,},): {vector(row)}\n\nLog of the sum of exponentials: "
    return (
        head
        + number(total, 2)
        + "\n\n"
        + table(["token", "logit", "log-probability", "probability"], cells)
    )


def _steps(logits: np.ndarray, ids: list[int], tokenizer: Tokenizer) -> str:
    """Return the most probable tokens after each input of the decoder."""
    cells = []
    for position, row in enumerate(logits):
        log_p = row - (np.log(np.exp(row - row.max()).sum()) + row.max())
        best = np.argsort(-log_p)[:TOP]
        names = pieces(tokenizer.target, best)
        inputs = pieces(tokenizer.target, [START, *ids[:position]])
        shown = [f"{name} {number(log_p[token])}" for name, token in zip(names, best, strict=True)]
        cells.append([str(position + 1), " ".join(inputs), *shown])
    return table(["step", "input", "best", *(f"{place}." for place in range(2, TOP + 1))], cells)


def _beams(steps: list[Beam], tokenizer: Tokenizer) -> str:
    cells = []
    for count, (live, finished) in enumerate(steps, 1):
        for place, (ids, value) in enumerate(live):
            name = " ".join(pieces(tokenizer.target, ids))
            cells.append([str(count) if not place else "", "live", name, number(value), ""])
        for ids, value, score in finished:
            name = " ".join(pieces(tokenizer.target, ids))
            cells.append(["", "**finished**", name, number(value), number(score)])
    return table(["step", "set", "hypothesis", "log P", "score"], cells)
