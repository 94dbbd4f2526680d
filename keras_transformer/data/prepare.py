"""From corpus files to what training reads: the tokenizer, the encoded pairs, a report."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import ConfigError, DataConfig
from keras_transformer.data.corpus import (
    CHUNK,
    CleaningReport,
    DataError,
    Overlap,
    Pair,
    clean,
    read_pairs,
)
from keras_transformer.data.encoding import encoded
from keras_transformer.data.store import EncodedStore, Sentences, write_sentences
from keras_transformer.data.tokenizer import Tokenizer, emptied, sample
from keras_transformer.system import core_count

FORMAT = 2
"""Version of the files that ``prepare`` writes, kept in the fingerprint."""
EVERY = 20.0  # seconds between two lines about a long preparation
OWN_DEV = ("builtin:", "tfds:")
"""Corpora that bring held-out pairs of their own."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """What training reads, made by ``prepare``."""

    tokenizer: Tokenizer
    """Of both languages."""
    train: EncodedStore
    """Training pairs."""
    dev: EncodedStore
    """Held-out pairs, cut to ``max_tokens``."""
    dev_pairs: list[Pair]
    """The text of ``dev``, pair for pair."""
    report: dict[str, Any]
    """What was read, kept and left out, and why."""


def prepare(
    config: DataConfig, directory: Path, log: Log, tokenizer: Tokenizer | None = None
) -> Prepared:
    """Read, clean, learn the pieces, encode; or take what an earlier call left there.

    Writes ``tokenizer/``, ``data/train.*``, ``data/dev.*`` and ``data/report.json`` below
    ``directory``, and last ``data/fingerprint.json``: without it nothing there counts, so
    a call that was killed is simply repeated.

    Args:
        config: The corpora and what is done to them.
        directory: The run folder.
        log: Called with each line of progress.
        tokenizer: Used instead of learning one.

    Raises:
        ConfigError: No ``data.dev`` for a corpus without held-out pairs.
        DataError: Bad input, nothing left of it, or a preparation of other data in
            ``directory``.
        TokenizerError: No tokenizer can be made, or the one in ``directory`` is damaged.
        StoreError: The encoded pairs in ``directory`` are damaged.
    """
    dev = _dev(config)
    wanted = _fingerprint(config, dev)
    mark = directory / "data" / "fingerprint.json"
    if mark.exists():
        _check_same(wanted, mark, tokenizer)
        log(f"data: as prepared before in {mark.parent}")
        return _load(directory)
    for path, state in wanted["files"].items():  # before they are read, in case they change
        state["sha256"] = _sha256(Path(path))
    dev_pairs, dev_report = _read_dev(config, dev)  # first, as a mistake shows at once
    pairs = 0  # not known before the corpus was read once
    if tokenizer is None:
        tokenizer, pairs = _learn(config, log)
    overlap = Overlap(dev_pairs)
    report = {
        "vocabulary": {"source": tokenizer.source.size, "target": tokenizer.target.size},
        "train": _encode_train(config, tokenizer, overlap, pairs, directory, log),
        "dev": _encode_dev(config, dev_pairs, dev_report, tokenizer, directory, log),
    }
    log(f"dev: {overlap.count} of {len(dev_pairs)} sources are in the training text too")
    report["dev"]["sources_in_training"] = overlap.count
    tokenizer.save(directory / "tokenizer")
    _write_json(directory / "data" / "report.json", report)
    _write_json(mark, wanted | {"tokenizer": tokenizer.fingerprint})
    return _load(directory)


def dev_text(directory: Path) -> list[Pair]:
    """The text of the held-out pairs that ``prepare`` left in a run folder.

    Raises:
        DataError: It is not there, or damaged.
    """
    rows = _read_json(directory / "data" / "dev.text.json")
    return [Pair(line, source, target) for line, source, target in rows]


def _dev(config: DataConfig) -> str:
    """The spec of the held-out pairs; read with the split "dev" where it names none."""
    if config.dev:
        return config.dev
    if not config.train.startswith(OWN_DEV):
        raise ConfigError(
            "data.dev: expected held-out pairs (a prefix, a .tsv file, tfds:... or "
            f"builtin:...), because {config.train} has none of its own; got {config.dev!r}"
        )
    # tfds:NAME/CONFIG:train -> tfds:NAME/CONFIG, whose split is then free to choose.
    return ":".join(config.train.split(":")[:2])


def _cleaned(config: DataConfig, report: CleaningReport) -> Iterator[Pair]:
    """The training pairs, read anew at each call: a large corpus is never held in memory."""
    pairs = read_pairs(config.train, config.source, config.target)
    return clean(pairs, config, report)


def _learn(config: DataConfig, log: Log) -> tuple[Tokenizer, int]:
    """The tokenizer, and the number of pairs in the corpus."""
    report = CleaningReport()
    log(f"tokenizer: learning {config.vocabulary_size} pieces from {config.train}")
    cleaned = _told(_cleaned(config, report), "tokenizer: read", 0, log)
    drawn = sample((pair.source, pair.target) for pair in cleaned)
    if not drawn:  # say why before the tokenizer fails
        raise _nothing_left("data.train", config.train, report)
    if len(drawn) < report.kept:
        log(f"tokenizer: {len(drawn)} of {report.kept} pairs, evenly drawn, are learned from")
    sources, targets = [source for source, _ in drawn], [target for _, target in drawn]
    del drawn  # the texts alone, that none is in memory longer than it is needed
    tokenizer = Tokenizer.train(emptied(sources), emptied(targets), config)
    sizes = {tokenizer.source.size, tokenizer.target.size}
    log(f"tokenizer: {' and '.join(map(str, sorted(sizes)))} pieces")
    return tokenizer, report.kept


def _encode_train(
    config: DataConfig,
    tokenizer: Tokenizer,
    overlap: Overlap,
    pairs: int,
    directory: Path,
    log: Log,
) -> dict[str, Any]:
    report = CleaningReport()
    # By itself, as cleaning is some chunks ahead, how many depends on the number of cores.
    unfit = CleaningReport()
    cleaned = overlap.watch(_told(_cleaned(config, report), "train: encoded", pairs, log))

    def kept() -> Iterator[tuple[Sentences, Sentences]]:
        for chunk, source, target in encoded(cleaned, tokenizer, core_count()):
            reasons = _reasons_to_drop(source.lengths, target.lengths, config)
            good = reasons == ""
            for place in np.flatnonzero(~good):
                unfit.count(str(reasons[place]), chunk[place].line, drop=True)
            yield source.select(good), target.select(good)
        report.take_in(unfit)
        if not report.kept:
            raise _nothing_left("data.train", config.train, report)

    return _write("train", kept(), report, tokenizer, directory, log)


def _reasons_to_drop(source: np.ndarray, target: np.ndarray, config: DataConfig) -> np.ndarray:
    """(N,) why training pairs of so many ids, source and target (N,), are left out; "" keeps."""
    shorter, longer = np.sort([source, target], axis=0) + 1  # with the end token
    return np.select(
        [
            np.minimum(source, target) == 0,
            longer > config.max_tokens,
            (config.max_ratio > 0) & (longer > config.max_ratio * shorter),
        ],
        [
            "without any token on one side",
            f"longer than {config.max_tokens} tokens",
            f"with one side over {config.max_ratio:g} times the other",
        ],
        "",
    )


def _read_dev(config: DataConfig, dev: str) -> tuple[list[Pair], CleaningReport]:
    """Held-out pairs are judged as they are: only those without a side are dropped."""
    lenient = dataclasses.replace(config, drop_duplicates=False, drop_identical=False)
    report = CleaningReport()
    read = read_pairs(dev, config.source, config.target, split="dev")
    pairs = list(clean(read, lenient, report))
    if not pairs:
        raise _nothing_left("data.dev", dev, report)
    return pairs, report


def _encode_dev(
    config: DataConfig,
    pairs: list[Pair],
    report: CleaningReport,
    tokenizer: Tokenizer,
    directory: Path,
    log: Log,
) -> dict[str, Any]:
    room = config.max_tokens - 1  # the end token takes one

    def cut() -> Iterator[tuple[Sentences, Sentences]]:
        for chunk, source, target in encoded(pairs, tokenizer, workers=1):
            for place in np.flatnonzero(np.maximum(source.lengths, target.lengths) > room):
                reason = f"cut to {config.max_tokens} tokens"
                report.count(reason, chunk[place].line, drop=False)
            yield source.cut(room), target.cut(room)

    written = _write("dev", cut(), report, tokenizer, directory, log)
    rows = [[pair.line, pair.source, pair.target] for pair in pairs]
    _write_json(directory / "data" / "dev.text.json", rows)
    return written


def _write(
    name: str,
    chunks: Iterable[tuple[Sentences, Sentences]],
    report: CleaningReport,
    tokenizer: Tokenizer,
    directory: Path,
    log: Log,
) -> dict[str, Any]:
    """Write a store; return what is to be said of it. ``report`` fills while chunks stream."""
    prefix = directory / "data" / name
    write_sentences(prefix, chunks, max(tokenizer.source.size, tokenizer.target.size))
    store = EncodedStore(prefix)
    tokens = {
        "source_tokens": int(store.source_lengths.sum()),
        "target_tokens": int(store.target_lengths.sum()),
    }
    for line in report.lines():
        log(f"{name}: {line}")
    log(f"{name}: {tokens['source_tokens']} source and {tokens['target_tokens']} target tokens")
    return report.to_dict() | tokens


def _told(pairs: Iterable[Pair], what: str, total: int, log: Log) -> Iterator[Pair]:
    """Pass pairs on; now and then say how many have passed, of ``total`` where it is known."""
    began = told = time.monotonic()
    for count, pair in enumerate(pairs, start=1):
        yield pair
        if count % CHUNK or (now := time.monotonic()) < told + EVERY:
            continue
        told, pace = now, count / (now - began)
        of, left = "", ""
        if total:
            of, left = f" of {total:,}", f", {max(total - count, 0) / pace:,.0f} seconds left"
        log(f"{what} {count:,}{of} pairs, {pace:,.0f} pairs/s{left}")


def _nothing_left(name: str, spec: str, report: CleaningReport) -> DataError:
    why = "; ".join(report.lines())
    return DataError(f"{name}: expected at least one usable pair in {spec}, got none: {why}")


def _fingerprint(config: DataConfig, dev: str) -> dict[str, Any]:
    """What the prepared files depend on, as plain values."""
    data = dataclasses.asdict(config)
    del data["on_long"]  # about translation, not about these files
    files: dict[str, dict[str, Any]] = {}
    for spec in (config.train, dev):
        for path in _files(spec, config.source, config.target):
            state = path.stat()
            files[str(path)] = {"bytes": state.st_size, "modified_ns": state.st_mtime_ns}
    return {"format": FORMAT, "data": data, "files": files}


def _files(spec: str, source: str, target: str) -> list[Path]:
    """The files behind a spec, those that are there."""
    if spec.startswith(OWN_DEV):
        return []
    names = [spec] + [
        f"{spec}.{language}{gz}" for language in (source, target) for gz in ("", ".gz")
    ]
    paths = [Path(name).expanduser() for name in names]
    return [path for path in paths if path.is_file()]


def _check_same(wanted: dict[str, Any], mark: Path, tokenizer: Tokenizer | None) -> None:
    """Refuse a preparation of something else.

    A corpus file that is gone by now is no difference: what was encoded from it is whole.
    Nor is a new date, as a copied file has it, where the content is the same.
    """
    found = _read_json(mark)
    if found.get("format") != FORMAT:
        raise DataError(f"{mark}: expected format {FORMAT}, got {found.get('format')}")
    differences = []
    before = found.get("data", {})
    for name, value in wanted["data"].items():
        if before.get(name) != value:
            differences.append(f"data.{name} {before.get(name)!r}, got {value!r}")
    for path, state in wanted["files"].items():
        then = found.get("files", {}).get(path)
        if then is None or not _unchanged(Path(path), then, state):
            differences.append(f"{path} as it was then, got a file of other content")
    if tokenizer is not None and found.get("tokenizer") != tokenizer.fingerprint:
        differences.append("the tokenizer of then, got another one")
    if differences:
        raise DataError(f"{mark.parent} was prepared before: expected {'; '.join(differences)}")


def _unchanged(path: Path, then: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a file has the content that it had; read only where its date does not say so."""
    if then["bytes"] != now["bytes"]:
        return False
    return then["modified_ns"] == now["modified_ns"] or then["sha256"] == _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(directory: Path) -> Prepared:
    data = directory / "data"
    tokenizer = Tokenizer.load(directory / "tokenizer")
    if tokenizer.fingerprint != _read_json(data / "fingerprint.json").get("tokenizer"):
        raise DataError(
            f"{directory / 'tokenizer'}: expected the tokenizer that {data} was encoded with, "
            "got another one"
        )
    return Prepared(
        tokenizer=tokenizer,
        train=EncodedStore(data / "train"),
        dev=EncodedStore(data / "dev"),
        dev_pairs=dev_text(directory),
        report=_read_json(data / "report.json"),
    )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected what the preparation wrote, got {error}") from None


def _write_json(path: Path, value: Any) -> None:
    """Appears whole or not at all."""
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(aside, path)
