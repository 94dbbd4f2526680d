"""Search from a configuration: forbidden tokens and limits, with scripted models."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import SearchConfig
from keras_transformer.inference.search import candidates
from keras_transformer.inference.search.generate import generate
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 3, "n_best": 3},
    "samples": {"sample": True, "n_best": 3, "top_k": 4},
    "any samples": {"sample": True, "n_best": 3},
}
WORDS = [4, 5, 6, 7, 8]
SOURCE = tf.constant([[7, 7, 7, END], [7, END, PAD, PAD]])


def run(logits, search: SearchConfig, **options):
    """Search with the same logits (V,) after every prefix; return the distinct tokens."""

    def start(source, width):
        def step(tokens, position, state):
            return tf.repeat(tf.constant([logits]), tf.shape(tokens)[0], axis=0), state

        return step, tf.zeros([source.shape[0] * width])

    seeds = tf.constant([[1, 2], [3, 4]])
    found = generate(start, SOURCE, search, seeds=seeds, **options)
    return found, set(found.tokens.numpy().ravel().tolist()) - {PAD}


@pytest.fixture(params=[16, 0], ids=["compared", "masked"])
def both_ways(request, monkeypatch) -> None:
    """Hide forbidden tokens by either of the two ways."""
    monkeypatch.setattr(candidates, "_MAX_COMPARED", request.param)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_suppressed_tokens_are_never_generated(options) -> None:
    logits = np.zeros(9, np.float32)
    logits[[PAD, UNKNOWN, START, 5, 7]] = 9.0  # most probable by far, and forbidden
    search = SearchConfig(max_extra=2, suppress=("five", "seven"), **options)
    found, tokens = run(logits, search, forbidden=(PAD, UNKNOWN, START, 5, 7))
    assert tokens <= {4, 6, 8, END}
    # Probabilities are those of the whole vocabulary: each is 1 of 5 e^9 + 4.
    lengths = found.lengths.numpy()
    each = found.log_probabilities.numpy()[lengths > 0] / lengths[lengths > 0]
    np.testing.assert_allclose(each, -np.log(5 * np.exp(9.0) + 4), rtol=1e-5)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_beam_without_enough_tokens_stays_finite(beam) -> None:
    logits = np.linspace(0, 3, 9).astype(np.float32)
    search = SearchConfig(beam=beam, max_extra=2, suppress=("all", "words"))
    found, tokens = run(logits, search, forbidden=(PAD, UNKNOWN, START, *WORDS))
    assert tokens == {END}
    assert found.lengths.numpy()[:, 0].tolist() == [1, 1]
    assert np.isfinite(found.scores.numpy()).all()


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("allowed", [True, False])
def test_the_unknown_token_is_generated_where_it_is_allowed(options, allowed) -> None:
    logits = np.zeros(9, np.float32)
    logits[[PAD, UNKNOWN, START]] = 9.0
    _, tokens = run(logits, SearchConfig(max_extra=2, allow_unknown=allowed, **options))
    assert (UNKNOWN in tokens) == allowed
    assert not tokens & {PAD, START}


def test_suppress_needs_its_ids() -> None:
    with pytest.raises(ValueError, match=r"forbidden: expected ids, .* got None"):
        run(np.zeros(9, np.float32), SearchConfig(suppress=("a",)))


@pytest.mark.parametrize(
    ("options", "source_end", "lengths"),
    [
        ({"max_extra": 2}, True, [5, 3]),
        ({"max_extra": 2, "max_factor": 2.0}, True, [8, 4]),
        ({"max_extra": 2, "max_factor": 2.0, "max_length": 5}, True, [5, 4]),
        # The rows are then 7 7 7 and 7, each with an end token that does not count.
        ({"max_extra": 2}, False, [5, 3]),
    ],
)
def test_outputs_reach_their_limits(options, source_end, lengths) -> None:
    logits = np.zeros(9, np.float32)
    logits[END] = -99.0
    search = SearchConfig(beam=1, **options)
    found, _ = run(logits, search, source_end=source_end)
    assert found.lengths.numpy()[:, 0].tolist() == lengths
