"""Section ``data``: parallel text, cleaning and vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_transformer.system import check_local
from keras_transformer.validation import (
    MAX_LENGTH,
    MAX_VOCABULARY_SIZE,
    Range,
    between,
    check_fields,
    option,
    require,
)

Algorithm = Literal["unigram", "bpe", "char", "words"]
OnLong = Literal["cut", "refuse"]


@dataclass(frozen=True)
class DataConfig:
    """The parallel text, its cleaning and its vocabulary."""

    train: str = "builtin:phrasebook"
    """Training pairs: a prefix (DIR/train stands for DIR/train.SOURCE and DIR/train.TARGET,
    or both with .gz), a .tsv or .tsv.gz file, tfds:NAME/CONFIG[:SPLIT], builtin:phrasebook.
    Empty in a run that was converted from another system: it has no corpus."""
    dev: str = ""
    """Held-out pairs that show progress and select the best weights; same forms as data.train.
    Empty: the validation split of a builtin: or tfds: corpus; other corpora need a value."""
    source: str = "en"
    """Source language: suffix of prefix files and language code in TFDS sets."""
    target: str = "zh"
    """Target language, as data.source; see also train.bleu_tokenizer."""
    algorithm: Algorithm = "unigram"
    """Tokenizer: SentencePiece with unigram, bpe (the paper) or char, whose tokens are characters
    (an English or German sentence then has about 4 times the tokens: see data.max_tokens and
    search.max_extra); or words: the text comes as tokens separated by spaces, of which the most
    frequent are the vocabulary, and all others are unknown."""
    # The minimum leaves room for some text in addition to 4 special tokens and 256 bytes.
    vocabulary_size: int = option(10_000, between(300, MAX_VOCABULARY_SIZE))
    """Vocabulary size; a small corpus gets the largest that it allows."""
    joint: bool = True
    """One vocabulary for both languages; tied embeddings need it, unless the run was converted with
    two tokenizers of common ids."""
    source_end: bool = True
    """End each source with the end token, as the paper's model expects; false for converted models
    that were trained without it."""
    max_tokens: int = option(256, between(2, MAX_LENGTH))
    """Longest training sentence in tokens, end token included; longer pairs are dropped and
    counted in the report. For longer sentences in translation see data.on_long."""
    on_long: OnLong = "cut"
    """Longer sentences in translation: cut (with a warning naming the line) or refuse."""
    max_ratio: float = option(
        0.0,
        Range(
            f"0 (keep all) or a number above 1, up to {MAX_LENGTH}",
            lambda value: value == 0 or 1 < value <= MAX_LENGTH,
        ),
    )
    """Drop training pairs where one side has more than this many times the tokens of the
    other; 0 keeps all."""
    drop_duplicates: bool = False
    """Drop repeated training pairs."""
    drop_identical: bool = False
    """Drop training pairs whose two sides are the same text."""

    def __post_init__(self) -> None:
        check_fields(self, "data")
        for name in ("source", "target"):
            value = getattr(self, name)
            require(bool(value), f"data.{name}", "a non-empty text", value)
        for name in ("train", "dev"):
            check_local(getattr(self, name), f"data.{name}")

    def check_corpus(self) -> None:
        """Check that there is a corpus.

        Raises:
            ConfigError: There is none.
        """
        require(
            bool(self.train),
            "data.train",
            "training pairs (a prefix, a .tsv file, tfds:... or builtin:...)",
            self.train,
        )
