"""Preparation: tokenizer, stores and report of a corpus, written atomically."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from keras_transformer import system
from keras_transformer.config import ConfigError, DataConfig
from keras_transformer.data import encoding, tokenizer_sample
from keras_transformer.data import pairs as pairs_module
from keras_transformer.data import prepare as prepare_module
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.encoding import EncodingError
from keras_transformer.data.errors import DataError
from keras_transformer.data.prepare import (
    Preparation,
    dev_spec,
    drop_reasons,
    prepare,
    prepare_again,
)
from tests.data.small_corpus import DEV, TRAIN, quietly, texts, write_tsv


def test_the_stores_hold_the_text_in_order(config: DataConfig, tmp_path: Path) -> None:
    log: list[str] = []

    prepared = prepare(config, tmp_path / "run", log.append)

    assert texts(prepared, "source") == [source for source, _ in TRAIN]
    assert texts(prepared, "target") == [target for _, target in TRAIN]
    assert [(pair.line, pair.source, pair.target) for pair in prepared.dev_pairs] == [
        (1, *DEV[0]),
        (2, *DEV[1]),
    ]
    assert len(prepared.dev) == 2
    report = prepared.report
    assert (report["train"]["read"], report["train"]["kept"]) == (35, 35)
    assert report["train"]["source_tokens"] == prepared.train.source_lengths.sum()
    assert report["train"]["target_tokens"] == prepared.train.target_lengths.sum()
    assert report["dev"]["sources_in_training"] == 1
    assert "dev: 1 of 2 sources are also in the training text" in log
    assert json.loads((tmp_path / "run/data/report.json").read_text()) == report


def files_of(run: Path) -> dict[str, bytes]:
    """Read all files but the fingerprint, which has the modification times of the corpus."""
    paths = sorted(path for path in run.rglob("*") if path.is_file())
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in paths
        if path.name != "fingerprint.json"
    }


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_neither_blocks_nor_workers_change_anything(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    long = "p q r s t u v w x y z " * 4
    odd = [(long, "k"), *TRAIN, ("", "x"), TRAIN[3], ("k k", "k k"), ("k k k k", "k"), (long, "k")]
    write_tsv(tmp_path / "train.tsv", odd)
    strict = dataclasses.replace(config, max_tokens=40, max_ratio=2.0, drop_duplicates=True)
    quietly(strict, tmp_path / "whole")

    monkeypatch.setattr(pairs_module, "BLOCK_SIZE", 4)
    monkeypatch.setattr(encoding, "BLOCKS_BEFORE_WORKERS", 2)
    monkeypatch.setattr(system, "core_count", lambda: workers)
    quietly(strict, tmp_path / "run")

    assert files_of(tmp_path / "run") == files_of(tmp_path / "whole")
    report = json.loads((tmp_path / "run/data/report.json").read_text())["train"]
    assert list(report["dropped"].items()) == [
        ("blank on one side", 1),
        ("seen before", 2),
        ("longer than 40 tokens", 1),
        ("with one side over 2 times the other", 1),
    ]


def test_a_killed_worker_leaves_no_files(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "BLOCK_SIZE", 4)
    monkeypatch.setattr(encoding, "BLOCKS_BEFORE_WORKERS", 1)
    monkeypatch.setattr(system, "core_count", lambda: 2)
    monkeypatch.setattr(encoding, "_WORKER_SCRIPT", "import os, signal; os.kill(os.getpid(), 9)")

    with pytest.raises(EncodingError, match="killed by signal 9"):
        quietly(config, tmp_path / "run")

    assert not list((tmp_path / "run").rglob("*.*"))


def test_a_long_preparation_logs_its_progress(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "BLOCK_SIZE", 10)
    monkeypatch.setattr(prepare_module, "LOG_INTERVAL", 0.0)
    log: list[str] = []

    prepare(config, tmp_path / "run", log.append)

    progress = [line for line in log if "pairs/s" in line]
    assert [line.split(" pairs")[0] for line in progress] == [
        "tokenizer: read 10",
        "tokenizer: read 20",
        "tokenizer: read 30",
        "train: encoded 10 of 35",
        "train: encoded 20 of 35",
        "train: encoded 30 of 35",
    ]
    assert all(line.endswith(" seconds left") for line in progress[3:])


def test_sampling_is_logged(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_sample, "_SAMPLE_BYTES", 1_000)
    log: list[str] = []

    prepared = prepare(config, tmp_path / "run", log.append)

    (line,) = [line for line in log if "a sample of" in line]
    drawn = re.fullmatch(r"tokenizer: learns from a sample of (\d+) of 35 pairs", line)
    assert drawn
    assert 0 < int(drawn[1]) < 20
    assert len(prepared.train) == 35


def test_pairs_of_bad_lengths_are_dropped_and_counted(config: DataConfig, tmp_path: Path) -> None:
    words = "k p q r s t u v w x y z"
    pairs = [*TRAIN, (words, words[::-1]), ("k", "il k vede"), (words, "k")]
    write_tsv(tmp_path / "train.tsv", pairs)
    tokenizer = quietly(config, tmp_path / "first").tokenizer
    long = len(tokenizer.source.encode([words])[0]) + 1
    usual = max(len(ids) for ids in tokenizer.target.encode([t for _, t in TRAIN])) + 1
    assert usual < long

    strict = dataclasses.replace(config, max_tokens=long - 1, max_ratio=2.0)
    report = quietly(strict, tmp_path / "run", tokenizer).report["train"]

    assert (report["read"], report["kept"]) == (38, 35)
    assert report["dropped"] == {
        f"longer than {long - 1} tokens": 2,
        "with one side over 2 times the other": 1,
    }
    assert report["first_lines"] == {
        f"longer than {long - 1} tokens": [36, 38],
        "with one side over 2 times the other": [37],
    }


def test_a_pair_exactly_at_the_limits_is_kept(config: DataConfig) -> None:
    limits = dataclasses.replace(config, max_tokens=10, max_ratio=2.0)

    source, target = np.array([(9, 9), (9, 4), (4, 9), (10, 9), (9, 3), (0, 1), (1, 0)]).T
    reasons = drop_reasons(source, target, limits)

    # With the end token: 10 of 10, 10 = 2 x 5; then 11 tokens, 10 > 2 x 4.
    assert reasons.tolist() == [
        "",
        "",
        "",
        "longer than 10 tokens",
        "with one side over 2 times the other",
        "without any token on one side",
        "without any token on one side",
    ]


def test_lengths_of_sources_without_end(config: DataConfig) -> None:
    limits = dataclasses.replace(config, max_tokens=10, max_ratio=2.0, source_end=False)

    source, target = np.array([(10, 9), (10, 4), (11, 9), (10, 10), (4, 8), (0, 1)]).T
    reasons = drop_reasons(source, target, limits)

    # Tokens 10 and 10, 10 and 5; then 11 and 10, 10 and 11, 4 and 9.
    assert reasons.tolist() == [
        "",
        "",
        "longer than 10 tokens",
        "longer than 10 tokens",
        "with one side over 2 times the other",
        "without any token on one side",
    ]


def test_long_dev_pairs_are_truncated_not_dropped(config: DataConfig, tmp_path: Path) -> None:
    long = " ".join("kpqrstuvwxyz" * 3)
    dev = [DEV[0], DEV[0], ("", "il"), (long, "k k"), ("same", "same")]
    write_tsv(tmp_path / "dev.tsv", dev)
    strict = dataclasses.replace(config, max_tokens=20, drop_duplicates=True, drop_identical=True)

    prepared = quietly(strict, tmp_path / "run")

    assert [pair.line for pair in prepared.dev_pairs] == [1, 2, 4, 5]
    assert prepared.dev_pairs[2].source == long
    assert len(prepared.dev) == 4
    assert prepared.dev.source_lengths[2] == 20
    whole = prepared.tokenizer.source.encode([long])[0]
    assert prepared.dev.batch([2])["source"][0].tolist() == [*whole[:19], 3]
    report = prepared.report["dev"]
    assert report["dropped"] == {"blank on one side": 1}
    assert report["noted"]["cut to 20 tokens"] == 1
    assert report["first_lines"]["cut to 20 tokens"] == [4]

    without = quietly(dataclasses.replace(strict, source_end=False), tmp_path / "without")
    assert without.dev.source_lengths[2] == 20
    assert without.dev.batch([2])["source"][0].tolist() == whole[:20]
    assert without.report["train"]["source_tokens"] == prepared.report["train"][
        "source_tokens"
    ] - len(without.train)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Preparation, "_encode_train"),
        (Preparation, "_encode_dev"),
        (prepare_module, "drop_reasons"),
        (system, "write_json"),
    ],
)
def test_a_kill_at_any_step_leaves_no_valid_data(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: object, name: str
) -> None:
    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(target, name, kill)
        with pytest.raises(Killed):
            quietly(config, tmp_path / "run")
    log: list[str] = []

    prepared = prepare(config, tmp_path / "run", log.append)

    assert not any("as prepared before" in line for line in log)
    assert texts(prepared, "source") == [source for source, _ in TRAIN]
    assert not list((tmp_path / "run/data").glob(".partial.*"))


def test_data_are_replaced_when_the_preparation_is_complete(
    config: DataConfig, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    first = quietly(config, run)
    write_tsv(tmp_path / "train.tsv", TRAIN[:3])

    prepared = prepare_again(config, run, lambda line: None, first.tokenizer)

    assert texts(prepared, "target") == [target for _, target in TRAIN[:3]]
    assert texts(quietly(config, run), "target") == texts(prepared, "target")
    assert texts(first, "target") == [target for _, target in TRAIN]  # its files are mapped
    assert sorted(path.name for path in run.iterdir()) == ["data", "tokenizer"]


def test_data_stay_if_the_changed_corpus_cannot_be_used(config: DataConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = quietly(config, run)
    before = files_of(run)
    (tmp_path / "train.tsv").write_text("")

    with pytest.raises(DataError, match="empty corpus"):
        prepare_again(config, run, lambda line: None, first.tokenizer)

    assert files_of(run) == before
    assert sorted(path.name for path in run.iterdir()) == ["data", "tokenizer"]


def test_files_need_a_dev_set(config: DataConfig, tmp_path: Path) -> None:
    nameless = dataclasses.replace(config, dev="")

    with pytest.raises(ConfigError, match=r"^data\.dev: expected held-out pairs"):
        quietly(nameless, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        ("builtin:phrasebook", "builtin:phrasebook"),
        ("tfds:ted_hrlr_translate/pt_to_en", "tfds:ted_hrlr_translate/pt_to_en"),
        ("tfds:ted_hrlr_translate/pt_to_en:train", "tfds:ted_hrlr_translate/pt_to_en"),
    ],
)
def test_corpora_with_a_dev_set_of_their_own(train: str, dev: str) -> None:
    assert dev_spec(DataConfig(train=train)) == dev
    assert dev_spec(DataConfig(train=train, dev="mine.tsv")) == "mine.tsv"


@pytest.mark.parametrize("pairs", [[], [("", ""), (" ", "x")]])
@pytest.mark.parametrize("name", ["train", "dev"])
def test_a_corpus_without_usable_pairs_is_refused(
    config: DataConfig, tmp_path: Path, pairs: list[tuple[str, str]], name: str
) -> None:
    write_tsv(tmp_path / f"{name}.tsv", pairs)

    with pytest.raises(DataError, match=name):
        quietly(config, tmp_path / "run")
    assert not (tmp_path / "run/data/fingerprint.json").exists()


def test_a_missing_dev_file_is_refused_before_any_work(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preparation, "_learn_tokenizer", None)  # a call would fail
    missing = dataclasses.replace(config, dev=str(tmp_path / "no.tsv"))

    with pytest.raises(DataError, match=r"no\.tsv"):
        quietly(missing, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sides_of_different_length_are_refused(config: DataConfig, tmp_path: Path) -> None:
    (tmp_path / "both.en").write_text("a b\n" * 4, "utf-8")
    (tmp_path / "both.it").write_text("c d\n" * 3, "utf-8")

    with pytest.raises(DataError, match=r"both\.en has 4 lines and .*both\.it has 3"):
        quietly(dataclasses.replace(config, train=str(tmp_path / "both")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_limits_that_leave_nothing_are_refused(config: DataConfig, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got none: .*35 longer than 2 tokens"):
        quietly(dataclasses.replace(config, max_tokens=2), tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.*"))


@pytest.mark.slow
def test_multi30k_pads_little(corpora: Path, tmp_path: Path) -> None:
    config = DataConfig(
        train=str(corpora / "multi30k/train"),
        dev=str(corpora / "multi30k/val"),
        source="en",
        target="de",
    )
    train = quietly(config, tmp_path / "run").train

    plan = BatchPlan(train.source_lengths, train.target_lengths, 4_096, seed=1)
    real = train.source_lengths.sum() + train.target_lengths.sum()
    for epoch in range(3):
        batches = map(train.batch, plan.epoch(epoch))
        assert 1 - real / sum(b["source"].size + b["target"].size for b in batches) < 0.10
