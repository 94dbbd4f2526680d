"""Experiments about the vocabulary and the search."""

from __future__ import annotations

from keras_transformer.lab.experiment import Experiment, Times, Variant

_BEAMS = (1, 2, 8, 16, 32, 64, 100)

EXPERIMENTS = (
    Experiment(
        name="vocabulary",
        title="subwords of 1,000, 4,000 and 10,000, and characters",
        variants=(
            Variant("1,000 subwords", {"data.vocabulary_size": 1_000}, "open"),
            Variant("4,000 subwords", {"data.vocabulary_size": 4_000}, "open"),
            Variant("10,000 subwords", {"data.vocabulary_size": 10_000}, "open"),
            Variant(
                "characters",
                {
                    "data.algorithm": "char",
                    "data.vocabulary_size": 1_000,
                    # As many sentences in a batch as before, in about four times the tokens.
                    "data.max_tokens": 1_000,
                    "search.max_extra": 250,
                    "train.batch_tokens": Times(4),
                },
                "lower",
            ),
        ),
        boxes=("data", "source embedding", "target embedding", "projection"),
        before="subwords (section 5.1: 37,000)",
        after="fewer, more, or single characters",
        literature="Ding et al. (2019): for Transformers small subword vocabularies tend to be "
        "best, and a bad choice alone costs 3 to 4 BLEU. Cherry et al. (2018): deep recurrent "
        "networks on characters reach those on subwords, at a multiple of the time.",
        size="Losses are compared per character of the reference.",
        per_character=True,
        notes="Tokens of a small vocabulary are shorter, so the horizontal axis counts characters. "
        "Batches of characters have four times the tokens, for about as many sentences.",
    ),
    Experiment(
        name="beam",
        title="greedy search against beams of 1 to 100, with and without length penalty",
        variants=(
            *(
                Variant(
                    f"beam {beam}",
                    {"search.beam": beam},
                    "lower" if beam in (1, 64, 100) else "equal",
                )
                for beam in _BEAMS
            ),
            *(
                Variant(
                    f"beam {beam}, α = 0",
                    {"search.beam": beam, "search.alpha": 0.0},
                    "lower" if beam >= 16 else "open",
                )
                for beam in (4, *_BEAMS[2:])
            ),
        ),
        boxes=("search",),
        before="beam 4, length penalty α = 0.6 (section 6.1)",
        after="beam 1 to 100; α = 0.6 and 0",
        literature="Stahlberg and Byrne (2019): exact search prefers the empty output for over "
        "half of the sentences; larger beams come nearer to it. The paper uses beam 4, α 0.6.",
        size="Short sentences leave little room for the length bias.",
        plots=("search",),
        notes="The weights are those of the baseline; nothing is trained.",
    ),
)
"""Experiments about vocabulary and search."""
