"""Encoded pairs on disk: the ids flat in memory-mapped arrays, the lengths beside them.

A store named ``train`` is five files::

    train.json              number of pairs, dtype of ids, file sizes; written last
    train.source.ids        ids of all sources, concatenated, without special tokens
    train.source.lengths    ids of each source plus 1, as int32
    train.target.ids        the same for the targets
    train.target.lengths

The end token is added on reading; ``"source_end": false`` in the header leaves it out in sources.

A file whose size differs from the header is refused, so a truncated store is never trained on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keras_transformer import system
from keras_transformer.errors import UserError
from keras_transformer.special_tokens import END, PAD, START

FORMAT = 1
"""Version of the file layout, stored in the header."""
SMALL, LARGE = "<u2", "<i4"
"""Dtypes of ids: two bytes if the vocabulary fits, else four. The header names the one used."""
LENGTH = "<i4"
"""Dtype of lengths."""
SIDES = ("source", "target")
FILES = tuple(f"{side}.{kind}" for side in SIDES for kind in ("ids", "lengths"))


class StoreError(UserError):
    """An encoded store that is missing, truncated, of another format, or given invalid ids."""


def _file(prefix: Path, ending: str) -> Path:
    # Not Path.with_suffix, because a prefix may contain dots.
    return prefix.with_name(f"{prefix.name}.{ending}")


@dataclass(frozen=True)
class EncodedSentences:
    """Encoded sentences of one side, concatenated."""

    ids: np.ndarray
    """(tokens,) int32, without start, end and padding."""
    lengths: np.ndarray
    """(N,) int32, ids of each sentence."""

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> EncodedSentences:
        """Concatenate lists of ids."""
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths)

    def select(self, mask: np.ndarray) -> EncodedSentences:
        """Return the sentences where ``mask`` (N,) is true."""
        return EncodedSentences(self.ids[np.repeat(mask, self.lengths)], self.lengths[mask])

    def truncate(self, max_length: int) -> EncodedSentences:
        """Return the sentences with at most their first ``max_length`` ids."""
        starts = np.cumsum(self.lengths) - self.lengths
        positions = np.arange(len(self.ids)) - np.repeat(starts, self.lengths)
        lengths = np.minimum(self.lengths, max_length)
        return EncodedSentences(self.ids[positions < max_length], lengths)


def write_store(
    prefix: Path,
    blocks: Iterable[tuple[EncodedSentences, EncodedSentences]],
    vocabulary_size: int = np.iinfo(SMALL).max + 1,
    source_end: bool = True,
) -> None:
    """Stream encoded pairs to disk block by block.

    The files are written under temporary names and renamed, the header last.

    Args:
        prefix: ``DIR/train`` makes ``DIR/train.json`` and four more files, and replaces a store
            of that name.
        blocks: Sources and targets of each block, in equal number.
        vocabulary_size: Upper bound of the ids. Up to 65,536 (the default) an id takes two bytes.
        source_end: Whether the reader ends each source with END; see
            ``special_tokens.source_tokens``.

    Raises:
        StoreError: No pairs at all, or an id that is special or not below ``vocabulary_size``.
        FileError: The files cannot be written.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    header_path = _file(prefix, "json")
    with contextlib.ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for ending in FILES:
            partial = stack.enter_context(system.atomic_file(_file(prefix, ending)))
            files[ending] = stack.enter_context(partial.open("wb"))
        header = _write_blocks(prefix, blocks, vocabulary_size, files)
        if not source_end:
            header["source_end"] = False
        for file in files.values():
            file.close()  # a full disk shows now, while the earlier store is whole
        # No header, hence no valid store, while the files are renamed.
        header_path.unlink(missing_ok=True)
    system.write_json(header_path, header)


def _write_blocks(
    prefix: Path,
    blocks: Iterable[tuple[EncodedSentences, EncodedSentences]],
    vocabulary_size: int,
    files: dict[str, BinaryIO],
) -> dict[str, Any]:
    """Write all blocks to the open files and return the header."""
    dtype = SMALL if vocabulary_size <= np.iinfo(SMALL).max + 1 else LARGE
    count = 0
    for block in blocks:
        for side, sentences in zip(SIDES, block, strict=True):
            _check_ids(sentences, vocabulary_size, f"{prefix}, {side}", count)
            files[f"{side}.ids"].write(sentences.ids.astype(dtype).tobytes())
            files[f"{side}.lengths"].write((sentences.lengths + 1).astype(LENGTH).tobytes())
        count += len(block[0].lengths)
    if not count:
        raise StoreError(f"{prefix}: expected at least one encoded pair, got none")
    sizes = {ending: file.tell() for ending, file in files.items()}
    return {"format": FORMAT, "pairs": count, "ids": dtype, "bytes": sizes}


def _check_ids(
    sentences: EncodedSentences, vocabulary_size: int, name: str, pairs_before: int
) -> None:
    # Padding inside a sentence would silently shorten it for the masks and the loss.
    ids = sentences.ids
    bad = (ids < 0) | (ids >= vocabulary_size) | (ids == PAD) | (ids == START) | (ids == END)
    if bad.any():
        first = int(np.argmax(bad))
        index = int(np.searchsorted(np.cumsum(sentences.lengths), first, side="right"))
        raise StoreError(
            f"{name}, pair {pairs_before + index + 1}: expected ids below {vocabulary_size} other "
            f"than padding, start and end ({PAD}, {START}, {END}), got {int(ids[first])}"
        )


class EncodedStore:
    """Encoded pairs, read from disk on demand.

    Args:
        prefix: The ``prefix`` given to ``write_store``.

    Attributes:
        source_lengths: (N,) int32, tokens of each source, including any end token.
        target_lengths: (N,) int32, tokens of each target, including the end token.

    Raises:
        StoreError: Files are missing, truncated or of another format.

    Example:
        >>> block = EncodedSentences.from_lists([[7, 8]]), EncodedSentences.from_lists([[9]])
        >>> write_store(Path("data/train"), [block])
        >>> EncodedStore(Path("data/train")).batch([0])["source"]
        array([[7, 8, 3]], dtype=int32)
    """

    def __init__(self, prefix: Path) -> None:
        header = _read_header(prefix)
        self._ids: dict[str, np.ndarray] = {}
        self._starts: dict[str, np.ndarray] = {}
        self._lengths: dict[str, np.ndarray] = {}
        for side in SIDES:
            path = _file(prefix, f"{side}.ids")
            count = header["bytes"][f"{side}.ids"] // np.dtype(header["ids"]).itemsize
            try:
                lengths = np.fromfile(_file(prefix, f"{side}.lengths"), LENGTH).astype(np.int32)
                # An empty file, where every sentence of a side is empty, cannot be mapped.
                self._ids[side] = (
                    np.memmap(path, header["ids"], mode="r") if count else np.zeros(0, np.int32)
                )
            except OSError as error:
                raise StoreError(f"{prefix}.{side}.*: cannot be read: {error}") from None
            ends = np.cumsum(lengths - 1, dtype=np.int64)
            found = len(lengths)
            if not found or found != header["pairs"] or lengths.min() < 1 or ends[-1] != count:
                raise StoreError(f"{path}: the ids, the lengths and {prefix}.json do not match")
            self._starts[side] = ends - (lengths - 1)
            self._lengths[side] = lengths
        self.source_lengths = self._lengths["source"]
        self.target_lengths = self._lengths["target"]
        if not header.get("source_end", True):  # an empty source is END alone
            self.source_lengths = np.maximum(self.source_lengths - 1, 1)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def batch(
        self, indices: Sequence[int] | np.ndarray, shape: tuple[int, int, int] | None = None
    ) -> dict[str, np.ndarray]:
        """Return the pairs at ``indices`` as padded arrays.

        Args:
            indices: (B,) positions in the store.
            shape: (B, S, T) to pad up to; None pads to the longest sentence of each side. Added
                rows are all padding.

        Returns:
            Int32 arrays: ``source`` (B, S) of ``special_tokens.source_tokens``, then PAD;
            ``target`` (B, T) of START, ids, then PAD; ``labels`` (B, T) of ids, END, then PAD.

        Raises:
            StoreError: ``shape`` is too small for these pairs.
        """
        rows = np.asarray(indices, np.int64)
        minimum = (
            len(rows),
            int(self.source_lengths[rows].max(initial=0)),
            int(self.target_lengths[rows].max(initial=0)),
        )
        count, source, target = shape or minimum
        if (count, source, target) != tuple(np.maximum(minimum, (count, source, target))):
            raise StoreError(f"shape: expected at least {minimum} for this batch, got {shape}")
        labels = self._padded("target", self.target_lengths, rows, count, target)
        shifted = np.full_like(labels, PAD)
        shifted[: len(rows), :1] = START
        # The decoder reads the token before each label; it never reads END.
        shifted[:, 1:] = np.where(labels[:, :-1] == END, PAD, labels[:, :-1])
        return {
            "source": self._padded("source", self.source_lengths, rows, count, source),
            "target": shifted,
            "labels": labels,
        }

    def _padded(
        self, side: str, lengths: np.ndarray, rows: np.ndarray, count: int, width: int
    ) -> np.ndarray:
        """Return (count, width) int32: each sentence of ``rows``, END if it counts, then PAD."""
        tokens = (self._lengths[side][rows] - 1)[:, None]  # (B, 1), END not counted
        columns = np.arange(width)[None, :]
        real = columns < tokens  # (B, width)
        padded = np.full((count, width), PAD, np.int32)
        inside = padded[: len(rows)]
        inside[real] = self._ids[side][(self._starts[side][rows][:, None] + columns)[real]]
        inside[(columns == tokens) & (tokens < lengths[rows][:, None])] = END
        return padded


def _read_header(prefix: Path) -> dict[str, Any]:
    path = _file(prefix, "json")
    try:
        header = json.loads(system.read_text(path))
        if header["format"] != FORMAT or header["ids"] not in (SMALL, LARGE):
            raise StoreError(f"{path}: expected format {FORMAT}, got {header['format']!r}")
        sizes = {ending: int(header["bytes"][ending]) for ending in FILES}
        int(header["pairs"])
        if not isinstance(header.get("source_end", True), bool):
            raise TypeError(f"source_end is {header['source_end']!r}")
    except FileNotFoundError:
        raise StoreError(f"{path}: expected the header of an encoded store, no such file") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path}: expected the header of an encoded store: {error}") from None
    for ending, size in sizes.items():
        file = _file(prefix, ending)
        try:
            system.check_regular(file)
            received = file.stat().st_size
        except FileNotFoundError:
            received = 0
        except OSError as error:
            raise StoreError(f"{file}: cannot be read: {error.strerror}") from None
        if received != size:
            raise StoreError(f"{file}: expected {size} bytes, got {received}")
    return header
