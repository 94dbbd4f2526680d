"""Preparation of the corpora for training: cleaning, tokenizer, encoding, report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer import system
from keras_transformer.config import ConfigError, DataConfig
from keras_transformer.data.cleaning import CleaningReport, Overlap, clean
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.errors import DataError
from keras_transformer.data.fingerprint import add_hashes, check_same, fingerprint
from keras_transformer.data.pairs import BLOCK_SIZE, CORPORA_WITH_DEV, Pair, read_pairs
from keras_transformer.data.prepared import (
    DEV_TEXT,
    FINGERPRINT,
    REPORT,
    Prepared,
    link_prepared,
    load,
)
from keras_transformer.data.store import EncodedSentences, EncodedStore, write_store
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_sample import consume, sample

LOG_INTERVAL = 20.0
"""Seconds between two progress lines of a long preparation."""

Log = Callable[[str], None]


def prepare(
    config: DataConfig,
    directory: Path,
    log: Log,
    tokenizer: Tokenizer | None = None,
    prepared_in: Path | None = None,
) -> Prepared:
    """Prepare the corpora in a run folder, or load what an earlier call prepared there.

    Writes ``tokenizer/``, ``data/train.*``, ``data/dev.*`` and ``data/report.json`` below
    ``directory``, and last ``data/fingerprint.json``. Without it the other files are ignored, so
    the next call repeats a killed preparation.

    Args:
        config: The corpora and how they are cleaned and encoded.
        directory: The run folder.
        log: Called with each progress line.
        tokenizer: Tokenizer to use; None learns one.
        prepared_in: Another run folder with data of the same configuration, corpora and
            tokenizer; its files are linked into ``directory`` instead.

    Raises:
        ConfigError: ``data.dev`` is empty and the corpus has no held-out pairs.
        DataError: The corpora cannot be used, no pair is left, or ``directory`` or
            ``prepared_in`` has data prepared from something else.
        TokenizerError: No tokenizer can be learned, or the one in ``directory`` is damaged.
        StoreError: The encoded pairs in ``directory`` are damaged.
        FileError: The files cannot be written.
    """
    current = fingerprint(config, dev_spec(config))
    path = directory / "data" / FINGERPRINT
    if path.exists():
        check_same(current, path, tokenizer)
        log(f"data: as prepared before in {path.parent}")
        return load(directory)
    if prepared_in is not None:
        check_same(current, prepared_in / "data" / FINGERPRINT, tokenizer)
        link_prepared(prepared_in, directory)
        log(f"data: shared with {prepared_in}")
        return load(directory)
    return Preparation(config, directory / "data", directory / "tokenizer", log).run(tokenizer)


def prepare_again(config: DataConfig, directory: Path, log: Log, tokenizer: Tokenizer) -> Prepared:
    """Prepare the corpora, then replace the data of a run folder in one step.

    Args:
        config: As for ``prepare``.
        directory: As for ``prepare``.
        log: As for ``prepare``.
        tokenizer: The tokenizer of the run.

    Raises:
        UserError: As for ``prepare``; the earlier data stay.
    """
    folder = directory / "data"
    with system.atomic_folder(folder, replace=True, last=FINGERPRINT) as partial:
        return Preparation(config, partial, directory / "tokenizer", log).run(tokenizer)


def dev_spec(config: DataConfig) -> str:
    """Return the spec of the held-out pairs; its split is "dev" unless it names one.

    Raises:
        ConfigError: ``data.dev`` is empty and the corpus has no held-out pairs; or there is no
            corpus.
    """
    config.check_corpus()
    if config.dev:
        return config.dev
    if not config.train.startswith(CORPORA_WITH_DEV):
        raise ConfigError(
            "data.dev: expected held-out pairs (a prefix, a .tsv file, tfds:... or "
            f"builtin:...), because {config.train} has none of its own; got {config.dev!r}"
        )
    # tfds:NAME/CONFIG:train -> tfds:NAME/CONFIG, without its split.
    return ":".join(config.train.split(":")[:2])


@dataclass(frozen=True)
class Preparation:
    """Preparation of the corpora of a configuration into two folders."""

    config: DataConfig
    """The corpora and how they are cleaned and encoded."""
    data_folder: Path
    """Folder of the encoded pairs, the report and the fingerprint."""
    tokenizer_folder: Path
    """Folder of the tokenizer."""
    log: Log
    """Called with each progress line."""

    def run(self, tokenizer: Tokenizer | None) -> Prepared:
        """Learn the tokenizer unless one is given, encode the corpora and write all files."""
        values = fingerprint(self.config, dev_spec(self.config))
        add_hashes(values)  # before the files are read, in case they change meanwhile
        dev_pairs, cleaning = self._read_dev()  # first, so that mistakes show at once
        pair_count = 0  # unknown before the corpus is read once
        if tokenizer is None:
            tokenizer, pair_count = self._learn_tokenizer()
        overlap = Overlap(dev_pairs)
        train, train_report = self._encode_train(tokenizer, overlap, pair_count)
        dev, dev_report = self._encode_dev(tokenizer, dev_pairs, cleaning)
        self.log(f"dev: {overlap.count} of {len(dev_pairs)} sources are also in the training text")
        report = {
            "vocabulary": {"source": tokenizer.source.size, "target": tokenizer.target.size},
            "train": train_report,
            "dev": dev_report | {"sources_in_training": overlap.count},
        }
        rows = [[pair.line, pair.source, pair.target] for pair in dev_pairs]
        system.write_json(self.data_folder / DEV_TEXT, rows)
        system.write_json(self.data_folder / REPORT, report)
        tokenizer.save(self.tokenizer_folder)
        values["tokenizer"] = tokenizer.fingerprint
        system.write_json(self.data_folder / FINGERPRINT, values)
        return Prepared(tokenizer, train, dev, dev_pairs, report)

    def _clean_train(self, report: CleaningReport) -> Iterator[Pair]:
        """Stream the cleaned training pairs; each call reads the corpus from its beginning."""
        pairs = read_pairs(self.config.train, self.config.source, self.config.target)
        return clean(pairs, self.config, report)

    def _learn_tokenizer(self) -> tuple[Tokenizer, int]:
        """Return the tokenizer and the number of cleaned pairs in the corpus."""
        config, report = self.config, CleaningReport()
        self.log(
            f"tokenizer: learning a vocabulary of {config.vocabulary_size} from {config.train}"
        )
        cleaned = self._log_progress(self._clean_train(report), "tokenizer: read", 0)
        drawn = sample((pair.source, pair.target) for pair in cleaned)
        if not drawn:  # the reasons say more than the tokenizer's error
            raise _no_pairs_left("data.train", config.train, report)
        if len(drawn) < report.kept:
            self.log(f"tokenizer: learns from a sample of {len(drawn)} of {report.kept} pairs")
        sources, targets = [source for source, _ in drawn], [target for _, target in drawn]
        del drawn  # only the texts stay, and each is freed when it has been read
        tokenizer = Tokenizer.train(consume(sources), consume(targets), config)
        sizes = sorted({tokenizer.source.size, tokenizer.target.size})
        self.log(f"tokenizer: vocabulary size {' and '.join(map(str, sizes))}")
        return tokenizer, report.kept

    def _encode_train(
        self, tokenizer: Tokenizer, overlap: Overlap, pair_count: int
    ) -> tuple[EncodedStore, dict[str, Any]]:
        """Encode and store the training pairs; return the store and its report."""
        report = CleaningReport()
        # A separate report: cleaning runs ahead of encoding, by a number of blocks that depends on
        # the cores, and the order of reasons in a common report would depend on it too.
        length_report = CleaningReport()
        cleaned = self._log_progress(self._clean_train(report), "train: encoded", pair_count)

        def kept_blocks() -> Iterator[tuple[EncodedSentences, EncodedSentences]]:
            encoded = encode_pairs(overlap.watch(cleaned), tokenizer, system.core_count())
            for pairs, source, target in encoded:
                reasons = drop_reasons(source.lengths, target.lengths, self.config)
                keep = reasons == ""
                for index in np.flatnonzero(~keep):
                    length_report.count(str(reasons[index]), pairs[index].line, drop=True)
                yield source.select(keep), target.select(keep)
            report.add_dropped(length_report)
            if not report.kept:
                raise _no_pairs_left("data.train", self.config.train, report)

        return self._write("train", kept_blocks(), report, tokenizer)

    def _read_dev(self) -> tuple[list[Pair], CleaningReport]:
        """Read the held-out pairs; only blank ones are dropped, so that scores are comparable."""
        config, dev = self.config, dev_spec(self.config)
        lenient = dataclasses.replace(config, drop_duplicates=False, drop_identical=False)
        report = CleaningReport()
        raw = read_pairs(dev, config.source, config.target, split="dev")
        pairs = list(clean(raw, lenient, report))
        if not pairs:
            raise _no_pairs_left("data.dev", dev, report)
        return pairs, report

    def _encode_dev(
        self, tokenizer: Tokenizer, pairs: list[Pair], report: CleaningReport
    ) -> tuple[EncodedStore, dict[str, Any]]:
        """Encode and store the held-out pairs, truncated; return the store and its report."""
        max_target = self.config.max_tokens - 1  # the end token takes one
        max_source = self.config.max_tokens - self.config.source_end

        def truncated_blocks() -> Iterator[tuple[EncodedSentences, EncodedSentences]]:
            for block, source, target in encode_pairs(pairs, tokenizer, workers=1):
                too_long = (source.lengths > max_source) | (target.lengths > max_target)
                for index in np.flatnonzero(too_long):
                    reason = f"cut to {self.config.max_tokens} tokens"
                    report.count(reason, block[index].line, drop=False)
                yield source.truncate(max_source), target.truncate(max_target)

        return self._write("dev", truncated_blocks(), report, tokenizer)

    def _write(
        self,
        name: str,
        blocks: Iterable[tuple[EncodedSentences, EncodedSentences]],
        report: CleaningReport,
        tokenizer: Tokenizer,
    ) -> tuple[EncodedStore, dict[str, Any]]:
        """Write a store; return it with its report, which reading the blocks fills in."""
        prefix = self.data_folder / name
        size = max(tokenizer.source.size, tokenizer.target.size)
        write_store(prefix, blocks, size, self.config.source_end)
        store = EncodedStore(prefix)
        tokens = {
            "source_tokens": int(store.source_lengths.sum()),
            "target_tokens": int(store.target_lengths.sum()),
        }
        for line in report.lines():
            self.log(f"{name}: {line}")
        self.log(
            f"{name}: {tokens['source_tokens']} source and {tokens['target_tokens']} target tokens"
        )
        return store, report.to_dict() | tokens

    def _log_progress(self, pairs: Iterable[Pair], action: str, total: int) -> Iterator[Pair]:
        """Pass pairs on and log their number at intervals, out of ``total`` unless that is 0."""
        start = last = time.monotonic()
        for count, pair in enumerate(pairs, start=1):
            yield pair
            if count % BLOCK_SIZE or (now := time.monotonic()) < last + LOG_INTERVAL:
                continue
            last, rate = now, count / (now - start)
            of_total, remaining = "", ""
            if total:
                of_total = f" of {total:,}"
                remaining = f", {max(total - count, 0) / rate:,.0f} seconds left"
            self.log(f"{action} {count:,}{of_total} pairs, {rate:,.0f} pairs/s{remaining}")


def drop_reasons(source: np.ndarray, target: np.ndarray, config: DataConfig) -> np.ndarray:
    """Return why training pairs are dropped for their lengths.

    Args:
        source: (N,) ids of each source, without the end token.
        target: (N,) ids of each target, without the end token.
        config: ``max_tokens``, ``max_ratio`` and ``source_end`` are used.

    Returns:
        (N,) reasons; "" for pairs that are kept.
    """
    shorter, longer = np.sort([source + config.source_end, target + 1], axis=0)  # with end tokens
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


def _no_pairs_left(name: str, spec: str, report: CleaningReport) -> DataError:
    reasons = "; ".join(report.lines())
    return DataError(f"{name}: expected at least one usable pair in {spec}, got none: {reasons}")
