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


def learn_codes(lines: Iterable[str], merges: int) -> list[tuple[str, str]]:
    """Learn byte-pair codes: the most frequent pair of symbols first (Sennrich et al., 2016)."""
    words = collections.Counter(word for line in lines for word in line.split())
    split = {word: (*word[:-1], word[-1] + "</w>") for word in words}
    codes: list[tuple[str, str]] = []
    while len(codes) < merges:
        pairs: collections.Counter[tuple[str, str]] = collections.Counter()
        for word, symbols in split.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += words[word]
        if not pairs:
            break
        # Ties by text, so that every run learns the same codes.
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        codes.append(best)
        split = {word: _merged(symbols, best) for word, symbols in split.items()}
    return codes


def apply_codes(line: str, codes: Sequence[tuple[str, str]]) -> list[str]:
    """Return the symbols of a line of tokens; the last one of a word ends in ``</w>``."""
    found: list[str] = []
    for word in line.split():
        symbols: tuple[str, ...] = (*word[:-1], word[-1] + "</w>")
        for pair in codes:
            symbols = _merged(symbols, pair)
        found += symbols
    return found


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


def _merged(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    done: list[str] = []
    for symbol in symbols:
        if done and (done[-1], symbol) == pair:
            done[-1] += symbol
        else:
            done.append(symbol)
    return tuple(done)
