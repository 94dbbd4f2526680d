"""Tokenizers of both languages: learned, saved, loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from keras_transformer import system
from keras_transformer.config import DataConfig
from keras_transformer.data.errors import TokenizerError as TokenizerError
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.sentencepiece_tokenizer import SentencePiece, learn_sentencepiece
from keras_transformer.data.word_tokenizer import Words

KINDS: dict[str, type[LanguageTokenizer]] = {kind.suffix: kind for kind in (SentencePiece, Words)}
"""Tokenizers of one language by the ending of their file."""

_STEMS = ("joint", "source", "target")


class Tokenizer:
    """The tokenizers of both languages; the same one for a joint vocabulary.

    Two different ones may share their ids: see `same_ids`.

    Args:
        source: Tokenizer of the source language.
        target: Tokenizer of the target language.
    """

    def __init__(self, source: LanguageTokenizer, target: LanguageTokenizer) -> None:
        self.source = source
        self.target = target

    @property
    def joint(self) -> bool:
        """Return whether both languages have the same tokenizer."""
        return self.source.serialized == self.target.serialized

    @property
    def same_ids(self) -> bool:
        """Return whether an id means the same token in both languages, as tied embeddings need.

        Two tokenizers may share their ids and cut text differently.
        """
        if self.joint:
            return True
        source, target = self.source, self.target
        ids = range(source.size)
        return source.size == target.size and source.pieces(ids) == target.pieces(ids)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both files in hexadecimal."""
        sides = self.source, self.target
        digests = (hashlib.sha256(side.serialized).digest() for side in sides)
        return hashlib.sha256(b"".join(digests)).hexdigest()

    @classmethod
    def train(cls, sources: Iterable[str], targets: Iterable[str], config: DataConfig) -> Tokenizer:
        """Learn the vocabulary from the two sides of a corpus.

        The same text gives the same tokenizer, bit for bit. A corpus too small for
        ``config.vocabulary_size`` gives a smaller vocabulary (``source.size``).

        Args:
            sources: Lines of the source side, read once and held in memory: a large corpus
                goes through ``sample`` first.
            targets: Lines of the target side, likewise.
            config: ``algorithm``, ``vocabulary_size`` and ``joint`` are used.

        Raises:
            TokenizerError: A side has no text.
        """
        sides = {"source": list(sources), "target": list(targets)}
        for side, lines in sides.items():
            if not any(line.strip() for line in lines):
                raise TokenizerError(f"{side} side: expected text to learn from, got none")
        if config.joint:
            both = _learn(sides.pop("source") + sides.pop("target"), config)
            return cls(both, both)
        source, target = (_learn(sides.pop(side), config) for side in list(sides))
        return cls(source, target)

    @classmethod
    def load(cls, directory: Path) -> Tokenizer:
        """Read the files that ``save`` wrote.

        Raises:
            TokenizerError: Files are missing or damaged, or have other special ids.
        """
        paths = {stem: _find(directory, stem) for stem in _STEMS}
        if paths["joint"].exists():
            both = _read(paths["joint"])
            return cls(both, both)
        joint, source, target = paths.values()
        missing = [path.name for path in (source, target) if not path.exists()]
        if missing:
            raise TokenizerError(
                f"{directory}: expected {joint.name}, or {source.name} and {target.name}; "
                f"missing: {joint.name}, {', '.join(missing)}"
            )
        return cls(_read(source), _read(target))

    def save(self, directory: Path) -> None:
        """Write the file ``joint``, or ``source`` and ``target``, each atomically.

        The ending of a name depends on the tokenizer: ``joint.model``, ``source.words``.

        Raises:
            FileError: A file cannot be written.
        """
        directory.mkdir(parents=True, exist_ok=True)
        sides = {"source": self.source, "target": self.target}
        if self.joint:
            sides = {"joint": self.source}
        files = {f"{stem}{side.suffix}": side.serialized for stem, side in sides.items()}
        for name, data in files.items():
            with system.atomic_file(directory / name) as partial:
                partial.write_bytes(data)
        for name in {f"{stem}{suffix}" for stem in _STEMS for suffix in KINDS} - files.keys():
            (directory / name).unlink(missing_ok=True)


def _learn(lines: list[str], config: DataConfig) -> LanguageTokenizer:
    if config.algorithm == "words":
        return Words.learn(lines, config)
    return learn_sentencepiece(lines, config)


def _find(directory: Path, stem: str) -> Path:
    """Return the file of this stem, or its most usual name if there is none."""
    candidates = [directory / f"{stem}{suffix}" for suffix in KINDS]
    return next((path for path in candidates if path.exists()), candidates[0])


def _read(path: Path) -> LanguageTokenizer:
    try:
        return KINDS[path.suffix].read(system.read_bytes(path), str(path))
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from error
