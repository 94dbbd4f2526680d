"""Text to ids and back: SentencePiece, in Python and in the graph.

The normaliser (``normalization.py``) lives inside the model file, so both tokenizers see
the same text. Byte fallback spells any character that has no piece of its own, so the
unknown id never comes out of real text. ``<s>``, ``<pad>`` and the like typed by a person
are plain text: the special pieces are control pieces, which no text can produce.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from keras_transformer.config import DataConfig
from keras_transformer.data import normalization
from keras_transformer.errors import UserError
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

# Control pieces and bytes, present in every model.
_FIXED_PIECES = 4 + 256
# Bytes of text, both sides together, that the pieces are learned from; a larger corpus is
# sampled evenly. SentencePiece takes some 30 bytes of memory for each, so that learning
# stays below 2 GiB with TensorFlow beside it. A line costs as much as some more of them.
_SAMPLE = 40_000_000
_LINE = 16
# A constant, because SentencePiece adds up its threads' counts in floating point: the
# same corpus must give the same file on every machine.
_THREADS = 4
# Characters seen less often are spelled in bytes: a piece met once in training leaves an
# embedding that learned nothing. On 26,000 English-Chinese pairs that frees 4 % of a
# vocabulary of 10,000 and touches 0.3 % of the characters of unseen text.
_CHARACTER_COUNT = 2
# Scores are rounded to this fraction of a nat. The SentencePiece releases behind Python
# and behind tensorflow-text add up scores in different order, and in float32 two ways of
# cutting a word that score nearly the same then come out differently, even in everyday
# sentences. Sums of 64ths are exact up to 2^24 / 64, some 30,000 tokens, so both agree.
_SCORE_STEPS = 64


class TokenizerError(UserError):
    """Text or model files from which no tokenizer can be made; the message says why."""


class SentencePiece:
    """One SentencePiece model.

    Args:
        proto: The bytes of a model file.
        name: What to call it in errors, such as its path.

    Raises:
        TokenizerError: Not a model, or one with other special ids.
    """

    def __init__(self, proto: bytes, name: str = "tokenizer model") -> None:
        self.proto = proto
        """The bytes of the model file."""
        if not proto:
            raise TokenizerError(f"{name}: expected a SentencePiece model, got an empty file")
        try:
            self._model: Any = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except (RuntimeError, ValueError) as error:
            raise TokenizerError(
                f"{name}: expected a SentencePiece model, got {len(proto)} bytes that are none "
                "(a damaged or half-copied file?)"
            ) from error
        model = self._model
        received = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if received != (PAD, UNKNOWN, START, END):
            raise TokenizerError(
                f"{name}: expected the ids padding {PAD}, unknown {UNKNOWN}, start {START}, "
                f"end {END}, got {received[0]}, {received[1]}, {received[2]}, {received[3]} "
                "(-1 means that there is none)"
            )

    @property
    def size(self) -> int:
        """Pieces in the vocabulary, special ones and bytes counted."""
        return int(self._model.get_piece_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without start and end; an empty list for a blank text."""
        try:
            return self._model.encode(list(texts), num_threads=1)
        except TypeError:  # a lone surrogate, as a badly decoded command line leaves behind
            return self._model.encode([_mended(text) for text in texts], num_threads=1)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence; special ids are silent, broken bytes become U+FFFD.

        Raises:
            TokenizerError: An id that the vocabulary does not have.
        """
        rows = [[int(token) for token in row] for row in ids]
        try:
            return self._model.decode(rows, num_threads=1) if rows else []
        except IndexError:
            wrong = next(token for row in rows for token in row if not 0 <= token < self.size)
            raise TokenizerError(f"ids: expected 0 to {self.size - 1}, got {wrong}") from None

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece behind each id; a space is U+2581."""
        return [self._model.id_to_piece(int(token)) for token in ids]

    def join(self, pieces: Sequence[str]) -> str:
        """The text of ``pieces``; what is no piece of the vocabulary is unknown."""
        return self._model.decode(list(pieces))

    def graph(self) -> Any:
        """The same tokenizer as TensorFlow ops, for an exported graph.

        Its ``tokenize`` and ``detokenize`` agree with ``encode`` and ``decode``. A new
        object each time, and not kept: seeding TensorFlow (``tf.random.set_seed``,
        ``keras.utils.set_random_seed``) or clearing the session destroys the resource
        behind it, so call this after seeding.

        Returns:
            A ``tensorflow_text.SentencepieceTokenizer`` of int32 ids, without start and end.
        """
        import tensorflow as tf
        import tensorflow_text

        return tensorflow_text.SentencepieceTokenizer(
            model=self.proto, out_type=tf.int32, add_bos=False, add_eos=False
        )


class Tokenizer:
    """The tokenizers of both languages; one and the same where the vocabulary is joint.

    Args:
        source: Tokenizer of what is read.
        target: Tokenizer of what is written.
    """

    def __init__(self, source: SentencePiece, target: SentencePiece) -> None:
        self.source = source
        self.target = target

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self.source.proto == self.target.proto

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both models, in hexadecimal: the same vocabulary, the same text."""
        digests = (hashlib.sha256(side.proto).digest() for side in (self.source, self.target))
        return hashlib.sha256(b"".join(digests)).hexdigest()

    @classmethod
    def train(cls, sources: Iterable[str], targets: Iterable[str], config: DataConfig) -> Tokenizer:
        """Learn the pieces from the two sides of a corpus.

        The same text gives the same tokenizer, bit for bit. A corpus too small for
        ``config.vocabulary_size`` gives as many pieces as it can (``source.size``).

        Args:
            sources: Lines of the source side; read once, and all held in memory: a large
                corpus goes through ``sample`` first.
            targets: Lines of the target side, likewise.
            config: ``algorithm``, ``vocabulary`` and ``joint`` are used.

        Raises:
            TokenizerError: A side without any text.
        """
        sides = {"source": list(sources), "target": list(targets)}
        for side, lines in sides.items():
            if not any(line.strip() for line in lines):
                raise TokenizerError(f"{side} side: expected text to learn pieces from, got none")
        if config.joint:
            both = SentencePiece(_train(sides.pop("source") + sides.pop("target"), config))
            return cls(both, both)
        source, target = (SentencePiece(_train(sides.pop(side), config)) for side in list(sides))
        return cls(source, target)

    @classmethod
    def load(cls, directory: Path) -> Tokenizer:
        """Read what ``save`` wrote.

        Raises:
            TokenizerError: Files missing or damaged, or with other special ids.
        """
        if (directory / "joint.model").exists():
            both = _read(directory / "joint.model")
            return cls(both, both)
        missing = [
            name for name in ("source.model", "target.model") if not (directory / name).exists()
        ]
        if missing:
            raise TokenizerError(
                f"{directory}: expected joint.model, or source.model and target.model; "
                f"missing: joint.model, {', '.join(missing)}"
            )
        return cls(_read(directory / "source.model"), _read(directory / "target.model"))

    def save(self, directory: Path) -> None:
        """Write ``joint.model``, or ``source.model`` and ``target.model``; each appears whole."""
        directory.mkdir(parents=True, exist_ok=True)
        models = {"source.model": self.source.proto, "target.model": self.target.proto}
        if self.joint:
            models = {"joint.model": self.source.proto}
        for name, proto in models.items():
            aside = directory / f".{name}.{os.getpid()}"
            aside.write_bytes(proto)
            os.replace(aside, directory / name)
        for name in {"joint.model", "source.model", "target.model"} - models.keys():
            (directory / name).unlink(missing_ok=True)


def _read(path: Path) -> SentencePiece:
    try:
        return SentencePiece(path.read_bytes(), str(path))
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from error


def _mended(text: str) -> str:
    """Surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sample(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """All pairs of sentences, or as many as pieces can be learned from in little memory.

    Each has the same chance, and the same pairs give the same sample. It keeps their order.

    Args:
        pairs: Source and target; streamed.
    """
    chance = random.Random(0)
    rate = 1.0
    kept: list[tuple[float, int, tuple[str, str]]] = []  # its draw and its size, the pair
    total = 0
    for pair in pairs:
        draw = chance.random()
        if draw >= rate:
            continue
        kept.append((draw, _size(pair), pair))
        total += kept[-1][1]
        while total > _SAMPLE and len(kept) > 1:
            rate *= 0.9
            kept = [one for one in kept if one[0] < rate] or kept[:1]
            total = sum(size for _, size, _ in kept)
    return [pair for _, _, pair in kept]


def emptied(lines: list[str]) -> Iterator[str]:
    """The lines in their order, each taken out of the list: its memory is free for others."""
    lines.reverse()
    while lines:
        yield lines.pop()


def _size(pair: tuple[str, str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) + _LINE for text in pair)


def _without_rare_characters(lines: list[str], vocabulary: int) -> Iterator[str]:
    """The lines with each character that gets no piece of its own replaced by a space.

    They are used up.

    At most half of the vocabulary goes to single characters, so that any size that
    ``DataConfig`` allows can be trained on any script. (SentencePiece's own
    ``character_coverage`` goes no lower than 0.98, and fails instead.)
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    room = max((vocabulary - _FIXED_PIECES) // 2, 1)
    # By count, then by code point: ties must not depend on the order of the lines.
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    often = [character for character in ranked if counts[character] >= _CHARACTER_COUNT]
    kept = set((often or ranked)[:room])
    rare = {ord(character): " " for character in ranked if character not in kept}
    return (line.translate(rare) for line in emptied(lines))


def _train(lines: list[str], config: DataConfig) -> bytes:
    sentencepiece.set_min_log_level(2)  # errors only: it logs hundreds of lines
    plain = normalization.normalizer(space_marks=False)
    normal = [line for line in plain.Normalize(lines) if line]
    lines.clear()  # a large sample is not to be in memory twice, and SentencePiece copies it
    if not normal:
        raise TokenizerError(
            "training text: expected visible characters to learn pieces from, got none"
        )
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_without_rare_characters(normal, config.vocabulary_size),
        model_writer=model,
        model_type=config.algorithm,
        vocab_size=config.vocabulary_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=START,
        eos_id=END,
        normalizer=normalization.normalizer(),
        max_sentence_length=1 << 30,  # the largest: longer lines would be left out silently
        num_threads=_THREADS,
        minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    for piece in proto.pieces:
        piece.score = round(piece.score * _SCORE_STEPS) / _SCORE_STEPS
    return proto.SerializeToString(deterministic=True)
