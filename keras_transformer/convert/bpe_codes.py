"""Byte-pair codes of subword-nmt and fastBPE as a SentencePiece model.

Both cut a word by the merges of its symbols, the earliest learned one first (Sennrich et al.,
2016). SentencePiece joins neighbours whose joint piece has the best score. So each result of a
merge becomes a piece whose score falls with its rank. The end of a word, ``</w>`` in the codes, is
the space behind it.

One difference remains: SentencePiece joins any two neighbours that give a known piece, the codes
only the pair that was learned. `differing_words` counts where that matters.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.limits import read_text
from keras_transformer.convert.vocabulary_rows import NONE

if TYPE_CHECKING:
    from keras_transformer.data.foreign_sentencepiece import RewrittenModels, SpecialIds

WORD_END = "</w>"
CONTINUATION = "@@"
SPACE = "\u2581"
SAMPLED_WORDS = 4_000
"""Words that are compared: so many of a vocabulary, and so many random ones."""
_OLD_VERSION = "#version: 0.1"

Pair = tuple[str, str]


class BpeCodes:
    """Merges in the order in which they were learned.

    Args:
        merges: Pairs of symbols; the last symbol of a word ends in ``</w>``.
    """

    def __init__(self, merges: Sequence[Pair]) -> None:
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
        self.merges = list(self._ranks)[::-1]
        """The pairs, each once."""
        self._halves = {left + right: (left, right) for left, right in self.merges}

    def cut(self, word: str, known: frozenset[str] | None = None) -> list[str]:
        """Return the tokens of a word; all but the last end in ``@@``.

        Args:
            word: A word without spaces.
            known: The tokens of a vocabulary; others are split again, as JoeyNMT does.
        """
        symbols = [*word[:-1], word[-1] + WORD_END]
        while len(symbols) > 1:
            pairs = set(itertools.pairwise(symbols))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            symbols = _merged(symbols, best)
        if known is not None:
            symbols = list(itertools.chain.from_iterable(self._split(s, known) for s in symbols))
        return [_token(symbol) for symbol in symbols]

    def _split(self, symbol: str, known: frozenset[str]) -> list[str]:
        """Undo merges until all symbols are known, or single characters."""
        if _token(symbol) in known or symbol not in self._halves:
            return [symbol]
        left, right = self._halves[symbol]
        return [*self._split(left, known), *self._split(right, known)]


def read_codes(path: Path) -> BpeCodes:
    """Read a file of codes: two symbols in a line, in fastBPE's with a count.

    Raises:
        ConvertError: It is no such file, or of subword-nmt's first version.
    """
    lines = read_text(path).split("\n")
    if lines[0].startswith("#version"):
        if lines[0].strip() == _OLD_VERSION:
            raise ConvertError(f"{path}: codes of version 0.1 end words otherwise; learn 0.2")
        lines = lines[1:]
    merges = []
    for number, line in enumerate(lines, 1):
        parts = line.strip("\r ").split(" ")
        if parts == [""]:
            continue
        if len(parts) == 3 and parts[2].isdecimal():
            parts.pop()
        if len(parts) != 2:
            raise ConvertError(f"{path}, line {number}: expected two symbols, got {line[:40]!r}")
        merges.append((parts[0], parts[1]))
    if not merges:
        raise ConvertError(f"{path}: expected byte-pair codes, got none")
    return BpeCodes(merges)


def codes_model(
    codes: BpeCodes, vocabulary: Mapping[str, int], special: SpecialIds, split_unknown: bool
) -> RewrittenModels:
    """Return a SentencePiece model with the ids of a vocabulary.

    Args:
        codes: The codes.
        vocabulary: Rows by token, such as ``er@@``.
        special: Rows of the special tokens.
        split_unknown: Whether tokens outside the vocabulary are split again, as in JoeyNMT;
            otherwise they are unknown.
    """
    from keras_transformer.data.foreign_sentencepiece import RewrittenModels
    from keras_transformer.data.sentencepiece_tokenizer import SentencePiece

    skipped = {special.pad, special.unknown, special.start, special.end}
    rows = {_piece(token): row for token, row in vocabulary.items() if row not in skipped}
    scores = _scores(codes, rows)
    lacking = [piece for piece in scores if piece not in rows]
    proto = _proto([*rows, *lacking], scores, set(lacking) if split_unknown else set())
    first = [special.pad, special.unknown, special.start, special.end]
    return RewrittenModels(
        sides=[SentencePiece(proto)],
        embedded=[*first, *rows.values(), *[special.unknown] * len(lacking)],
        scored=[*first, *rows.values(), *[NONE] * len(lacking)],
    )


def differing_words(
    codes: BpeCodes, model: RewrittenModels, vocabulary: Mapping[str, int], split_unknown: bool
) -> tuple[int, int]:
    """Return how many words are cut otherwise by the model, and how many were compared.

    Args:
        codes: The codes.
        model: Their `codes_model`.
        vocabulary: Rows by token.
        split_unknown: As for `codes_model`.
    """
    (side,) = model.sides
    known = frozenset(vocabulary) if split_unknown else None
    words = _sample_words(list(vocabulary))
    ids = {piece: number for number, piece in enumerate(side.pieces(range(side.size)))}
    differing = 0
    for word, own in zip(words, side.encode(words), strict=True):
        expected = [ids.get(_piece(token)) for token in codes.cut(word, known)]
        differing += own != expected
    return differing, len(words)


def _sample_words(tokens: Sequence[str]) -> list[str]:
    """Return the whole words of a vocabulary, and random ones made of its tokens."""
    chosen = random.Random(1)
    bare = [token.removesuffix(CONTINUATION) for token in tokens if SPACE not in token]
    bare = [text for text in bare if text and not text.isspace() and not text.startswith("<")]
    allowed = set(bare)
    whole = [token for token in tokens if token in allowed]
    made = ["".join(chosen.choices(bare, k=chosen.randint(1, 4))) for _ in range(SAMPLED_WORDS)]
    characters = set("".join(bare))
    return [word for word in [*whole[:SAMPLED_WORDS], *made] if set(word) <= characters]


def _merged(symbols: Sequence[str], pair: Pair) -> list[str]:
    """Join all neighbours that are a pair, from the left."""
    done: list[str] = []
    number = 0
    while number < len(symbols):
        if tuple(symbols[number : number + 2]) == pair:
            done.append("".join(pair))
            number += 2
        else:
            done.append(symbols[number])
            number += 1
    return done


def _token(symbol: str) -> str:
    """Return a symbol of the codes as a token of the vocabulary."""
    if symbol.endswith(WORD_END):
        return symbol.removesuffix(WORD_END)
    return symbol + CONTINUATION


def _piece(token: str) -> str:
    """Return a token of the vocabulary as a piece with the space behind a word."""
    return token.removesuffix(CONTINUATION) if token.endswith(CONTINUATION) else token + SPACE


def _scores(codes: BpeCodes, rows: Mapping[str, int]) -> dict[str, float]:
    """Return the score of each piece: the ends of words first, then merges by rank."""
    symbols = [symbol for pair in codes.merges for symbol in pair]
    pieces = [*rows, *(_piece(_token(symbol)) for symbol in symbols)]
    characters = dict.fromkeys("".join(pieces).replace(SPACE, ""))
    scores = {character + SPACE: 1.0 for character in characters}
    for rank, pair in enumerate(codes.merges):
        scores.setdefault(_piece(_token("".join(pair))), -float(rank))
    last = -float(len(codes.merges))
    return scores | dict.fromkeys(characters, last)


def _proto(pieces: Sequence[str], scores: Mapping[str, float], unused: set[str]) -> bytes:
    """Return a SentencePiece model whose first ids are the special tokens."""
    from sentencepiece import sentencepiece_model_pb2

    from keras_transformer.data.word_tokenizer import SPECIAL
    from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    proto = sentencepiece_model_pb2.ModelProto()
    for number, piece in enumerate([*SPECIAL, *pieces]):
        added = proto.pieces.add()
        added.piece = piece
        added.score = scores.get(piece, 0.0)
        if number <= END:
            added.type = kinds.UNKNOWN if number == UNKNOWN else kinds.CONTROL
        elif piece not in scores or (piece in unused and len(piece.rstrip(SPACE)) > 1):
            added.type = kinds.UNUSED  # never cut; decoded
        else:
            added.type = kinds.NORMAL
    trainer = proto.trainer_spec
    trainer.model_type = trainer.BPE
    trainer.treat_whitespace_as_suffix = True
    trainer.vocab_size = len(proto.pieces)
    trainer.pad_id, trainer.unk_id, trainer.bos_id, trainer.eos_id = PAD, UNKNOWN, START, END
    trainer.pad_piece, trainer.unk_piece, trainer.bos_piece, trainer.eos_piece = SPECIAL
    normalizer = proto.normalizer_spec
    normalizer.name = "identity"
    normalizer.add_dummy_prefix = True  # a space behind the last word
    normalizer.remove_extra_whitespaces = True
    normalizer.escape_whitespaces = True
    return proto.SerializeToString(deterministic=True)
