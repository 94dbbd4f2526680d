"""Encoded pairs on disk: the ids flat in memory-mapped arrays, the lengths beside them.

A store named ``train`` is five files::

    train.json              counts, number type and sizes in bytes; written last
    train.source.ids        ids of all sources, one after the other, without specials
    train.source.lengths    tokens of each source as int32, the end token counted
    train.target.ids        the same for the targets
    train.target.lengths

A file of another size than the header says is refused, so a store that was cut short
is never trained on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keras_transformer.data.tokenizer import END, PAD, START
from keras_transformer.errors import UserError

FORMAT = 1
"""Version of the files' layout, kept in the header."""
SMALL, LARGE = "<u2", "<i4"
"""Number types of ids: two bytes where the vocabulary fits, else four. The header says which."""
LENGTH = "<i4"
SIDES = ("source", "target")
KINDS = ("ids", "lengths")
CHUNK = 10_000  # pairs held in memory while writing those of `write_store`

EncodedPair = tuple[Sequence[int], Sequence[int]]


class StoreError(UserError):
    """An encoded store that is missing, cut short, of another format, or given bad ids."""


def _file(prefix: Path, ending: str) -> Path:
    # Not Path.with_suffix: a prefix may have dots of its own.
    return prefix.with_name(f"{prefix.name}.{ending}")


@dataclass(frozen=True)
class Sentences:
    """Encoded sentences of one side, one after the other."""

    ids: np.ndarray
    """(tokens,) int32, without start, end and padding."""
    lengths: np.ndarray
    """(N,) int32, ids of each sentence."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Sentences:
        """Of lists of ids."""
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths)

    def select(self, kept: np.ndarray) -> Sentences:
        """Those at which ``kept`` (N,) is true."""
        return Sentences(self.ids[np.repeat(kept, self.lengths)], self.lengths[kept])

    def cut(self, longest: int) -> Sentences:
        """Each with its first ``longest`` ids, if it has more."""
        starts = np.cumsum(self.lengths) - self.lengths
        places = np.arange(len(self.ids)) - np.repeat(starts, self.lengths)
        return Sentences(self.ids[places < longest], np.minimum(self.lengths, longest))


def write_store(
    prefix: Path, pairs: Iterable[EncodedPair], vocabulary_size: int = np.iinfo(SMALL).max + 1
) -> None:
    """Stream encoded pairs to disk, holding a few thousand of them in memory.

    Args:
        prefix: As for ``write_sentences``.
        pairs: Source ids and target ids, without start, end and padding; either may be empty.
        vocabulary_size: As for ``write_sentences``.

    Raises:
        StoreError: No pairs at all, or an id that is special or not below ``vocabulary_size``.
    """
    stream = iter(pairs)
    chunks = iter(lambda: list(islice(stream, CHUNK)), [])
    write_sentences(
        prefix,
        (
            (Sentences.of([source for source, _ in chunk]), Sentences.of([t for _, t in chunk]))
            for chunk in chunks
        ),
        vocabulary_size,
    )


def write_sentences(
    prefix: Path,
    chunks: Iterable[tuple[Sentences, Sentences]],
    vocabulary_size: int = np.iinfo(SMALL).max + 1,
) -> None:
    """Stream encoded pairs to disk, a chunk of them at a time.

    The files are written aside and renamed, the header last.

    Args:
        prefix: Where: ``DIR/train`` makes ``DIR/train.json`` and four more files. What is
            there under that name is replaced.
        chunks: As many sources as targets in each.
        vocabulary_size: Every id is below it. Up to 65,536 (the default) an id takes two bytes.

    Raises:
        StoreError: No pairs at all, or an id that is special or not below ``vocabulary_size``.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    endings = [f"{side}.{kind}" for side in SIDES for kind in KINDS]
    aside = {ending: _file(prefix, f"{ending}.partial") for ending in endings}
    files: dict[str, BinaryIO] = {}
    try:
        for ending, path in aside.items():
            files[ending] = path.open("wb")
        header = _stream(prefix, chunks, vocabulary_size, files)
        for file in files.values():
            file.close()
        _publish(prefix, aside, header)
    finally:
        for ending, file in files.items():
            file.close()
            aside[ending].unlink(missing_ok=True)


def _stream(
    prefix: Path,
    chunks: Iterable[tuple[Sentences, Sentences]],
    vocabulary_size: int,
    files: dict[str, BinaryIO],
) -> dict[str, Any]:
    """Write all chunks to the open files; return the header."""
    dtype = SMALL if vocabulary_size <= np.iinfo(SMALL).max + 1 else LARGE
    count = 0
    for chunk in chunks:
        for side, sentences in zip(SIDES, chunk, strict=True):
            _check_ids(sentences, vocabulary_size, f"{prefix}, {side}", count)
            files[f"{side}.ids"].write(sentences.ids.astype(dtype).tobytes())
            files[f"{side}.lengths"].write((sentences.lengths + 1).astype(LENGTH).tobytes())
        count += len(chunk[0].lengths)
    if not count:
        raise StoreError(f"{prefix}: expected at least one encoded pair, got none")
    sizes = {ending: file.tell() for ending, file in files.items()}
    return {"format": FORMAT, "pairs": count, "ids": dtype, "bytes": sizes}


def _check_ids(sentences: Sentences, vocabulary_size: int, place: str, before: int) -> None:
    # A pad inside a sentence would silently shorten it for the masks and the loss.
    ids = sentences.ids
    bad = (ids < 0) | (ids >= vocabulary_size) | (ids == PAD) | (ids == START) | (ids == END)
    if bad.any():
        at = int(np.argmax(bad))
        pair = before + int(np.searchsorted(np.cumsum(sentences.lengths), at, side="right")) + 1
        raise StoreError(
            f"{place}, pair {pair}: expected ids below {vocabulary_size} other than padding, start "
            f"and end ({PAD}, {START}, {END}), got {int(ids[at])}"
        )


def _publish(prefix: Path, aside: dict[str, Path], header: dict[str, Any]) -> None:
    """Rename the files into place. Without its header nothing there counts as a store."""
    final = _file(prefix, "json")
    final.unlink(missing_ok=True)
    for ending, path in aside.items():
        os.replace(path, _file(prefix, ending))
    partial = _file(prefix, "json.partial")
    partial.write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, final)


class EncodedStore:
    """Encoded pairs, read from disk as they are needed.

    Args:
        prefix: As given to ``write_store``.

    Attributes:
        source_lengths: (N,) int32, tokens of each source, the end token counted.
        target_lengths: (N,) int32, the same for the targets.

    Raises:
        StoreError: Files are missing, cut short or of another format.

    Example:
        >>> write_store(Path("data/train"), [([7, 8], [9])])
        >>> EncodedStore(Path("data/train")).batch([0])["source"]
        array([[7, 8, 3]], dtype=int32)
    """

    def __init__(self, prefix: Path) -> None:
        header = _read_header(prefix)
        self._ids: dict[str, np.ndarray] = {}
        self._starts: dict[str, np.ndarray] = {}
        self._lengths: dict[str, np.ndarray] = {}
        for side in SIDES:
            lengths = np.fromfile(_file(prefix, f"{side}.lengths"), LENGTH).astype(np.int32)
            ends = np.cumsum(lengths - 1, dtype=np.int64)
            path = _file(prefix, f"{side}.ids")
            count = path.stat().st_size // np.dtype(header["ids"]).itemsize
            if len(lengths) != header["pairs"] or lengths.min() < 1 or ends[-1] != count:
                raise StoreError(f"{path}: the ids, the lengths and {prefix}.json do not fit")
            # An empty file cannot be mapped: every sentence of this side is empty.
            self._ids[side] = (
                np.memmap(path, header["ids"], mode="r") if count else np.zeros(0, np.int32)
            )
            self._starts[side] = ends - (lengths - 1)
            self._lengths[side] = lengths
        self.source_lengths = self._lengths["source"]
        self.target_lengths = self._lengths["target"]

    def __len__(self) -> int:
        return len(self.source_lengths)

    def batch(
        self, indices: Sequence[int] | np.ndarray, shape: tuple[int, int, int] | None = None
    ) -> dict[str, np.ndarray]:
        """The pairs at ``indices`` as padded arrays.

        Args:
            indices: (B,) positions in the store.
            shape: (B, S, T) to pad up to; None pads to the longest sentence of each side. Rows
                added this way are padding throughout.

        Returns:
            Int32 arrays: ``source`` (B, S), ids, END, then PAD; ``target`` (B, T), START, ids,
            then PAD; ``labels`` (B, T), ids, END, then PAD.

        Raises:
            StoreError: ``shape`` is too small for these pairs.
        """
        rows = np.asarray(indices, np.int64)
        least = (
            len(rows),
            int(self.source_lengths[rows].max(initial=0)),
            int(self.target_lengths[rows].max(initial=0)),
        )
        count, source, target = shape or least
        if (count, source, target) != tuple(np.maximum(least, (count, source, target))):
            raise StoreError(f"shape: expected at least {least} for this batch, got {shape}")
        labels = self._padded("target", rows, count, target)
        shifted = np.full_like(labels, PAD)
        shifted[: len(rows), :1] = START
        # The decoder reads what stands before each label; it never reads END.
        shifted[:, 1:] = np.where(labels[:, :-1] == END, PAD, labels[:, :-1])
        return {
            "source": self._padded("source", rows, count, source),
            "target": shifted,
            "labels": labels,
        }

    def _padded(self, side: str, rows: np.ndarray, count: int, width: int) -> np.ndarray:
        """(count, width) int32: each sentence of ``rows``, END, then PAD."""
        words = (self._lengths[side][rows] - 1)[:, None]  # (B, 1), END not counted
        columns = np.arange(width)[None, :]
        real = columns < words  # (B, width)
        padded = np.full((count, width), PAD, np.int32)
        inside = padded[: len(rows)]
        inside[real] = self._ids[side][(self._starts[side][rows][:, None] + columns)[real]]
        inside[columns == words] = END
        return padded


def _read_header(prefix: Path) -> dict[str, Any]:
    path = _file(prefix, "json")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT or header["ids"] not in (SMALL, LARGE):
            raise StoreError(f"{path}: expected format {FORMAT}, got {header['format']!r}")
        sizes = {
            f"{side}.{kind}": header["bytes"][f"{side}.{kind}"] for side in SIDES for kind in KINDS
        }
        int(header["pairs"])
    except FileNotFoundError:
        raise StoreError(f"{path}: expected the header of an encoded store, no such file") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path}: expected the header of an encoded store: {error}") from None
    for ending, size in sizes.items():
        file = _file(prefix, ending)
        received = file.stat().st_size if file.exists() else 0
        if received != size:
            raise StoreError(f"{file}: expected {size} bytes, got {received}: prepare it again")
    return header
