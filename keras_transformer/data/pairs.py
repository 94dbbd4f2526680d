"""Sentence pairs of a corpus: prefix files, TSV, TensorFlow Datasets and the built-in corpus."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from keras_transformer.data import phrasebook
from keras_transformer.data.errors import DataError
from keras_transformer.data.lines import read_lines

BLOCK_SIZE = 10_000
"""Most pairs in a block; pairs are cleaned, encoded and stored block by block."""

CORPORA_WITH_DEV = ("builtin:", "tfds:")
"""Prefixes of corpora that have held-out pairs of their own."""

_BUILTIN_LANGUAGES = {"en", "zh"}

FEW_COLUMNS = "with fewer than two columns"
"""The problem of a TSV line without a tab."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    line: int
    """Line in the corpus; the first is 1."""
    source: str
    """Source sentence."""
    target: str
    """Target sentence."""
    problem: str = ""
    """Reason why the line is not a pair, found while reading; ``clean`` drops and reports it."""


def read_pairs(spec: str, source: str, target: str, split: str = "train") -> Iterator[Pair]:
    """Stream the pairs of a corpus before cleaning.

    Args:
        spec: A prefix (``DIR/train`` stands for ``DIR/train.SOURCE`` and
            ``DIR/train.TARGET``, or both with ``.gz``), a ``.tsv`` or ``.tsv.gz`` file (its
            first two columns), ``tfds:NAME/CONFIG[:SPLIT]`` or ``builtin:phrasebook[:SPLIT]``.
        source: Source language: the suffix of a file, the code in a TFDS set.
        target: Target language, likewise.
        split: Split to read if the spec of a ``tfds:`` or ``builtin:`` corpus names none;
            ``dev`` also finds a TFDS split named validation.

    Returns:
        Pairs with their line numbers. A TSV line with one column is a pair with a
        ``problem``.

    Raises:
        DataError: While streaming, before the first pair where possible: files missing,
            unreadable, empty, not UTF-8, or of different length; unknown corpus, split or
            language.
    """
    if spec.startswith("tfds:"):
        # Imported here because TensorFlow takes seconds to import and plain files do not need it.
        from keras_transformer.data import tfds

        texts = tfds.read(spec.removeprefix("tfds:"), source, target, split)
        pairs: Iterator[Pair] = (Pair(line, *text) for line, text in enumerate(texts, start=1))
    elif spec.startswith("builtin:"):
        pairs = _builtin_pairs(spec, source, target, split)
    elif spec.endswith((".tsv", ".tsv.gz")):
        pairs = _tsv_pairs(_expanded(spec))
    else:
        pairs = _prefix_pairs(spec, source, target)
    first = next(pairs, None)
    if first is None:
        raise DataError(f"{spec}: expected pairs of sentences, got an empty corpus")
    yield from chain((first,), pairs)


def blocks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Group a stream of pairs into lists of ``BLOCK_SIZE``."""
    stream = iter(pairs)
    while block := list(islice(stream, BLOCK_SIZE)):
        yield block


def corpus_files(spec: str, source: str, target: str) -> list[Path]:
    """Return the existing files that ``read_pairs`` may read for a spec.

    Raises:
        DataError: A file cannot be looked up.
    """
    if spec.startswith(CORPORA_WITH_DEV):
        return []
    prefixed = (path for language in (source, target) for path in _prefix_files(spec, language))
    return [path for path in (_expanded(spec), *prefixed) if _is_file(path)]


def _prefix_files(prefix: str, language: str) -> list[Path]:
    """Return the files that may hold one language of a prefix corpus, in order of preference."""
    return [_expanded(f"{prefix}.{language}{suffix}") for suffix in ("", ".gz")]


def _expanded(path: str) -> Path:
    """Expand ``~`` and ``~user`` in a path; as in a shell, an unknown user stays as it is."""
    try:
        return Path(os.path.expanduser(path))
    except ValueError:  # a NUL or a lone surrogate, which no user and no file has
        return Path(path)


def _is_file(path: Path) -> bool:
    """Return True for a file.

    Raises:
        DataError: It cannot be looked up: the name is too long, or its folder is closed.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _prefix_pairs(prefix: str, source: str, target: str) -> Iterator[Pair]:
    if source == target:
        raise DataError(
            f"{prefix}: expected two different suffixes as data.source and data.target, "
            f"got {source!r} twice"
        )
    paths = [_find_file(prefix, language) for language in (source, target)]
    sides = [read_lines(path) for path in paths]
    for number, texts in enumerate(zip_longest(*sides), start=1):
        if None in texts:
            lines = [
                number - (text is None) + sum(1 for _ in side)
                for text, side in zip(texts, sides, strict=True)
            ]
            raise DataError(
                f"{paths[0]} has {lines[0]} lines and {paths[1]} has {lines[1]}: "
                "expected the same number, line by line translations of each other"
            )
        yield Pair(number, *texts)


def _find_file(prefix: str, language: str) -> Path:
    """Return the file of one language; if there is none, list similar files in the error."""
    candidates = _prefix_files(prefix, language)
    for path in candidates:
        if _is_file(path):
            return path
    message = f"{prefix}: expected {candidates[0]} or {candidates[1]}, found neither"
    folder = candidates[0].parent
    if not os.path.isdir(folder):
        raise DataError(f"{message} ({folder} is not a folder)")
    stem = Path(prefix).name
    try:
        names = os.listdir(folder)
    except OSError:  # it may be entered, but not listed
        names = []
    similar = sorted(name for name in names if name.startswith(stem))
    if similar:
        message += f"; {folder} has {', '.join(similar[:8])}{', ...' if similar[8:] else ''}"
    raise DataError(message)


def _tsv_pairs(path: Path) -> Iterator[Pair]:
    if not _is_file(path):
        raise DataError(f"{path}: expected a file of tab-separated columns, found none")
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            # A blank line is reported as blank.
            yield Pair(number, line, "", FEW_COLUMNS if line.strip() else "")
        else:
            yield Pair(number, columns[0], columns[1])


def _builtin_pairs(spec: str, source: str, target: str, split: str) -> Iterator[Pair]:
    _, name, *rest = spec.split(":")
    split = rest[0] if rest else split
    if name != "phrasebook" or len(rest) > 1:
        raise DataError(f"{spec}: expected builtin:phrasebook or builtin:phrasebook:SPLIT")
    if split not in phrasebook.SPLITS:
        raise DataError(f"{spec}: expected a split {', '.join(phrasebook.SPLITS)}, got {split!r}")
    if {source, target} != _BUILTIN_LANGUAGES:
        raise DataError(
            f"{spec}: expected data.source and data.target en and zh, or zh and en, "
            f"got {source!r} and {target!r}"
        )
    for number, (english, chinese) in enumerate(phrasebook.pairs(split), start=1):
        texts = (english, chinese) if source == "en" else (chinese, english)
        yield Pair(number, *texts)
