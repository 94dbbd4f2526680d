"""SentencePiece tokenizer, in Python and in the graph.

The normalizer (``normalization.py``) is part of the model file, so both implementations see the
same text. Byte fallback spells any character outside the vocabulary, so real text never gives
the unknown id. ``<s>``, ``<pad>`` and the like in a text are plain text: the special tokens are
control pieces of SentencePiece, which no text can produce.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, ClassVar

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from keras_transformer.config import DataConfig
from keras_transformer.data import normalization
from keras_transformer.data.errors import TokenizerError
from keras_transformer.data.tokenizer_sample import replace_rare_characters
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

# Constant, because SentencePiece sums the counts of its threads in floating point: the same
# corpus must give the same file on every machine.
_THREADS = 4
# Scores are rounded to multiples of 1/64. The SentencePiece releases in Python and in
# tensorflow-text add scores in a different order: in float32 they then choose different
# segmentations if two have nearly the same score, even in everyday sentences. Sums of 64ths are
# exact up to 2^24 / 64, about 30,000 tokens, so both releases agree.
_SCORE_STEPS = 64


class SentencePiece:
    """One SentencePiece model, a `LanguageTokenizer`.

    Args:
        proto: The bytes of a model file.
        name: Name in error messages, such as its path.

    Raises:
        TokenizerError: Not a model, or a model with other special ids.
    """

    suffix: ClassVar[str] = ".model"
    """Ending of the file."""
    space_mark: ClassVar[str] = "\u2581"
    """Mark of a space in pieces; byte pieces can spell it in a text."""

    def __init__(self, proto: bytes, name: str = "tokenizer model") -> None:
        self.proto = proto
        """The bytes of the model file."""
        if not proto:
            raise TokenizerError(f"{name}: expected a SentencePiece model, got an empty file")
        try:
            self._model: Any = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except (RuntimeError, ValueError) as error:
            raise TokenizerError(
                f"{name}: expected a SentencePiece model, got {len(proto)} other bytes "
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

    @classmethod
    def read(cls, data: bytes, name: str) -> SentencePiece:
        """Read the bytes of a model file; see the class for the errors."""
        return cls(data, name)

    @property
    def serialized(self) -> bytes:
        """The bytes of the model file."""
        return self.proto

    @property
    def size(self) -> int:
        """Vocabulary size, including special tokens and bytes."""
        return int(self._model.get_piece_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without start and end; none for a blank text."""
        try:
            return self._model.encode(list(texts), num_threads=1)
        except TypeError:  # a lone surrogate, as in a badly decoded command line
            return self._model.encode([_fix_surrogates(text) for text in texts], num_threads=1)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each sequence; special ids are skipped, broken bytes are U+FFFD.

        Raises:
            TokenizerError: An id is outside the vocabulary.
        """
        rows = [[int(token) for token in row] for row in ids]
        try:
            return self._model.decode(rows, num_threads=1) if rows else []
        except IndexError:
            wrong = next(token for row in rows for token in row if not 0 <= token < self.size)
            raise TokenizerError(f"ids: expected 0 to {self.size - 1}, got {wrong}") from None

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the subword piece of each id; a space is U+2581."""
        return [self._model.id_to_piece(int(token)) for token in ids]

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text of subword pieces; pieces outside the vocabulary are unknown."""
        return self._model.decode(list(pieces))

    def graph(self) -> Any:
        """Build the same tokenizer as TensorFlow ops, for an exported graph.

        Its ``tokenize`` and ``detokenize`` agree with ``encode`` and ``decode``. Each call
        builds a new object: seeding TensorFlow (``tf.random.set_seed``,
        ``keras.utils.set_random_seed``) or clearing the session destroys the resource it
        refers to, so call this after seeding.

        Returns:
            A ``tensorflow_text.SentencepieceTokenizer`` of int32 ids, without start and end.
        """
        import tensorflow as tf
        import tensorflow_text

        return tensorflow_text.SentencepieceTokenizer(
            model=self.proto, out_type=tf.int32, add_bos=False, add_eos=False
        )


def _fix_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def learn_sentencepiece(lines: list[str], config: DataConfig) -> SentencePiece:
    """Learn a model from the lines of a text.

    Args:
        lines: The text; the list is consumed.
        config: ``algorithm`` and ``vocabulary_size`` are used.

    Raises:
        TokenizerError: SentencePiece cannot learn a vocabulary from the text.
    """
    sentencepiece.set_min_log_level(2)  # errors only: it logs hundreds of lines
    plain = normalization.normalizer(space_marks=False)
    normal = [line for line in plain.Normalize(lines) if line]
    lines.clear()  # a large sample must not be in memory twice: SentencePiece copies it
    if not normal:
        raise TokenizerError(
            "training text: expected visible characters to learn a vocabulary from, got none"
        )
    model = io.BytesIO()
    try:
        _train_model(normal, model, config)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise TokenizerError(
            f"training text: SentencePiece cannot learn a vocabulary from it ({reason}); add text, "
            "or try another data.algorithm or data.vocabulary_size"
        ) from error
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    for piece in proto.pieces:
        piece.score = round(piece.score * _SCORE_STEPS) / _SCORE_STEPS
    return SentencePiece(proto.SerializeToString(deterministic=True))


def _train_model(normal: list[str], model: io.BytesIO, config: DataConfig) -> None:
    """Write the model learned from normalized text, which is consumed, to ``model``."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=replace_rare_characters(normal, config.vocabulary_size, config.algorithm),
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
        max_sentence_length=1 << 30,  # the largest: longer lines would be skipped silently
        num_threads=_THREADS,
        minloglevel=2,
    )
