"""Section ``search``: beam search and sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_transformer.validation import (
    MAX_BATCH_TOKENS,
    MAX_FACTOR,
    MAX_HYPOTHESES,
    MAX_LENGTH,
    MAX_VOCABULARY_SIZE,
    SEED,
    SHARE,
    between,
    check_fields,
    option,
    require,
)

LengthPenalty = Literal["gnmt", "power"]

FACTOR_STEPS = 1_000_000
"""``max_factor`` counts in steps of 1 / FACTOR_STEPS. With whole numbers Python and graphs compute
the same limit: 0.29 times 100 tokens are 29, in floating point 28."""

_NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""Values of the sampling options that change nothing."""


@dataclass(frozen=True)
class SearchConfig:
    """The search (section 6.1 of "Attention Is All You Need")."""

    beam: int = option(4, between(1, MAX_HYPOTHESES))
    """Hypotheses kept for each sentence; 1 is greedy search."""
    alpha: float = option(0.6, between(0, 10))
    """Strength of the length penalty: larger values favour longer hypotheses; 0 is none."""
    length_penalty: LengthPenalty = "gnmt"
    """Length penalty, n tokens with the end token. gnmt: score = log P / ((5 + n) / 6)^alpha
    (Wu et al., 2016), the paper's; power: log P / n^alpha, as in CTranslate2 and fairseq."""
    max_extra: int = option(50, between(1, MAX_LENGTH))
    """Longest output: source length times max_factor plus this many tokens."""
    max_factor: float = option(1.0, between(0, MAX_FACTOR))
    """Factor of the source length in the longest output; source length is in tokens, end token
    not counted, and the product is rounded down. 0: max_extra alone is the limit."""
    max_length: int = option(0, between(0, MAX_LENGTH))
    """Longest output in tokens, end token counted, whatever the source length; 0 is no limit."""
    n_best: int = option(1, between(1, MAX_HYPOTHESES))
    """Hypotheses returned for each sentence, best first; the texts of a beam search differ,
    samples may repeat."""
    batch_tokens: int = option(4_096, between(1, MAX_BATCH_TOKENS))
    """Source tokens per batch, padding counted."""
    min_length: int = option(0, between(0, MAX_LENGTH))
    """Shortest output in tokens, end token not counted; never more than the longest output."""
    no_repeat_ngram: int = option(0, between(0, MAX_LENGTH))
    """No sequence of this many tokens occurs twice in an output; 0 allows repetition, as does a
    number above the longest output."""
    allow_unknown: bool = False
    """Let the unknown token be generated; the translation then shows the tokenizer's text for it,
    which is ⁇ in SentencePiece."""
    suppress: tuple[str, ...] = ()
    """Pieces of the target vocabulary that are never generated, such as language tags: a list,
    on the command line '[">>deu<<"]'."""
    sample: bool = False
    """Sample tokens at random instead of searching; beam has no effect, n_best is the number
    of samples. The samples of a sentence depend only on its text and the seed."""
    temperature: float = option(1.0, between(1e-6, 1_000_000))
    """Softmax temperature of samples: below 1 sharpens, above 1 flattens."""
    top_k: int = option(0, between(0, MAX_VOCABULARY_SIZE))
    """Sample from this many most probable tokens; 0 means all."""
    top_p: float = option(1.0, SHARE)
    """Sample from the most probable tokens that together have this probability."""
    seed: int = option(1, SEED)
    """Seed of samples."""

    def __post_init__(self) -> None:
        check_fields(self, "search")
        require(
            self.sample or self.n_best <= self.beam,
            "search.n_best",
            f"at most search.beam ({self.beam})",
            self.n_best,
        )
        for name, neutral in _NEUTRAL.items():
            value = getattr(self, name)
            require(
                self.sample or value == neutral,
                f"search.{name}",
                f"{neutral} where search.sample is false",
                value,
            )

    def length_limit(self, source: int) -> int:
        """Return the most tokens of an output, END counted, for a source of ``source`` tokens.

        Args:
            source: Tokens of the source, END not counted.
        """
        limit = source * factor_steps(self.max_factor) // FACTOR_STEPS + self.max_extra
        return min(limit, self.max_length) if self.max_length else limit


def factor_steps(max_factor: float) -> int:
    """Return ``max_factor`` in steps of 1 / FACTOR_STEPS."""
    return round(max_factor * FACTOR_STEPS)
