"""Vocabularies of the models in the conversion proof: SentencePiece, byte-pair codes, words.

Runs in the environments of the peers.
"""

from __future__ import annotations

import collections
import io
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path


def train_sentencepiece(lines: Sequence[str], size: int, rule: str, **more: object) -> bytes:
    """Return a SentencePiece model with ids unk 0, <s> 1, </s> 2, as OPUS-MT has them.

    Args:
        lines: Text.
        size: Pieces at most.
        rule: Normalization; "identity" makes the file small.
        more: Other options of the trainer.
    """
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        normalization_rule_name=rule,
        character_coverage=1.0,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **more,
    )
    return model.getvalue()


class Codes:
    """Byte-pair codes.

    Args:
        pairs: Symbols to join, in order; the last symbol of a word ends in ``</w>``.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._words: dict[str, tuple[str, ...]] = {}

    def apply(self, line: str) -> list[str]:
        """Return the symbols of a line of words."""
        return [symbol for word in line.split() for symbol in self._cut(word)]

    def _cut(self, word: str) -> tuple[str, ...]:
        if word not in self._words:
            symbols = _characters(word)
            for pair in self.pairs:
                symbols = _merged(symbols, pair)
            self._words[word] = symbols
        return self._words[word]


def learn_codes(lines: Iterable[str], merges: int) -> Codes:
    """Learn byte-pair codes: the most frequent pair of symbols first (Sennrich et al., 2016)."""
    words = collections.Counter(word for line in lines for word in line.split())
    split = {word: _characters(word) for word in words}
    pairs: collections.Counter[tuple[str, str]] = collections.Counter()

    def count(word: str, sign: int) -> None:
        for pair in itertools.pairwise(split[word]):
            pairs[pair] += sign * words[word]

    for word in words:
        count(word, 1)
    codes: list[tuple[str, str]] = []
    while len(codes) < merges:
        # Ties by text, so that every run learns the same codes.
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or not pairs[best]:
            break
        codes.append(best)
        for word in [word for word, symbols in split.items() if best[0] in symbols]:
            count(word, -1)
            split[word] = _merged(split[word], best)
            count(word, 1)
    return Codes(codes)


def continued(symbols: Iterable[str]) -> list[str]:
    """Return symbols as subword-nmt writes them: ``@@`` where the word goes on."""
    return [one[:-4] if one.endswith("</w>") else f"{one}@@" for one in symbols]


def by_frequency(rows: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Return tokens and counts, most frequent first, ties by text."""
    counts = collections.Counter(token for row in rows for token in row)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def spaced(line: str) -> str:
    """Return a sentence with its last punctuation mark as a token of its own."""
    return f"{line[:-1]} {line[-1]}" if line[-1:] in (".", "!", "?") else line


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write lines in UTF-8."""
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _characters(word: str) -> tuple[str, ...]:
    return (*word[:-1], f"{word[-1]}</w>")


def _merged(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    done: list[str] = []
    for symbol in symbols:
        if done and (done[-1], symbol) == pair:
            done[-1] += symbol
        else:
            done.append(symbol)
    return tuple(done)
