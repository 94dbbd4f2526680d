"""Preparation: files in, tokenizer and stores out, whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.config import ConfigError, DataConfig
from keras_transformer.data import corpus, encoding
from keras_transformer.data import prepare as prepare_module
from keras_transformer.data import tokenizer as tokenizer_module
from keras_transformer.data.batches import BatchPlan
from keras_transformer.data.corpus import DataError
from keras_transformer.data.encoding import EncodingError
from keras_transformer.data.prepare import Prepared, prepare
from keras_transformer.data.store import StoreError
from keras_transformer.data.tokenizer import Tokenizer

TRAIN = [(f"the {a} sees a {b}", f"il {a} vede un {b}") for a in "kpqrs" for b in "tuvwxyz"]
DEV = [("the k sees a z", "il k vede un z"), ("a p sees the q", "un p vede il q")]


def write_tsv(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return str(path)


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    return DataConfig(
        train=write_tsv(tmp_path / "train.tsv", TRAIN),
        dev=write_tsv(tmp_path / "dev.tsv", DEV),
        source="en",
        target="it",
        vocabulary_size=300,
    )


def quietly(config: DataConfig, run: Path, tokenizer: Tokenizer | None = None) -> Prepared:
    return prepare(config, run, lambda line: None, tokenizer)


def texts(prepared: Prepared, side: str) -> list[str]:
    """What the training store holds, decoded."""
    model = prepared.tokenizer.source if side == "source" else prepared.tokenizer.target
    rows = prepared.train.batch(range(len(prepared.train)))
    array = rows["source" if side == "source" else "labels"]
    return model.decode([[token for token in row if token > 3] for row in array.tolist()])


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
    assert "dev: 1 of 2 sources are in the training text too" in log
    assert json.loads((tmp_path / "run/data/report.json").read_text()) == report


def files_of(run: Path) -> dict[str, bytes]:
    """What a preparation left, but for the fingerprint, which knows the dates of the corpus."""
    paths = sorted(path for path in run.rglob("*") if path.is_file())
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in paths
        if path.name != "fingerprint.json"
    }


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_neither_chunks_nor_workers_change_anything(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    long = "p q r s t u v w x y z " * 4
    odd = [(long, "k"), *TRAIN, ("", "x"), TRAIN[3], ("k k", "k k"), ("k k k k", "k"), (long, "k")]
    write_tsv(tmp_path / "train.tsv", odd)
    strict = dataclasses.replace(config, max_tokens=40, max_ratio=2.0, drop_duplicates=True)
    quietly(strict, tmp_path / "whole")

    monkeypatch.setattr(corpus, "CHUNK", 4)
    monkeypatch.setattr(encoding, "FEW", 2)
    monkeypatch.setattr(prepare_module, "core_count", lambda: workers)
    quietly(strict, tmp_path / "run")

    assert files_of(tmp_path / "run") == files_of(tmp_path / "whole")
    report = json.loads((tmp_path / "run/data/report.json").read_text())["train"]
    assert list(report["dropped"].items()) == [
        ("blank on one side", 1),
        ("seen before", 2),
        ("longer than 40 tokens", 1),
        ("with one side over 2 times the other", 1),
    ]


def test_a_killed_worker_leaves_nothing_that_counts(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "CHUNK", 4)
    monkeypatch.setattr(encoding, "FEW", 1)
    monkeypatch.setattr(prepare_module, "core_count", lambda: 2)
    monkeypatch.setattr(encoding, "_START", "import os, signal; os.kill(os.getpid(), 9)")

    with pytest.raises(EncodingError, match="killed by signal 9"):
        quietly(config, tmp_path / "run")

    assert not list((tmp_path / "run").rglob("*.*"))


def test_a_long_preparation_tells_how_far_it_is(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "CHUNK", 10)
    monkeypatch.setattr(prepare_module, "EVERY", 0.0)
    log: list[str] = []

    prepare(config, tmp_path / "run", log.append)

    told = [line for line in log if "pairs/s" in line]
    assert [line.split(" pairs")[0] for line in told] == [
        "tokenizer: read 10",
        "tokenizer: read 20",
        "tokenizer: read 30",
        "train: encoded 10 of 35",
        "train: encoded 20 of 35",
        "train: encoded 30 of 35",
    ]
    assert all(line.endswith(" seconds left") for line in told[3:])


def test_a_sampled_corpus_is_said_to_be(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_module, "_SAMPLE", 1_000)
    log: list[str] = []

    prepared = prepare(config, tmp_path / "run", log.append)

    (line,) = [line for line in log if "evenly drawn" in line]
    assert 0 < int(line.split()[1]) < 20
    assert line.split()[2:5] == ["of", "35", "pairs,"]
    assert len(prepared.train) == 35


def test_long_and_lopsided_training_pairs_are_counted(config: DataConfig, tmp_path: Path) -> None:
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
    reasons = prepare_module._reasons_to_drop(source, target, limits)

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


def test_dev_pairs_are_cut_not_dropped(config: DataConfig, tmp_path: Path) -> None:
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


def test_prepared_data_is_taken_again(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = quietly(config, tmp_path / "run")
    monkeypatch.setattr(prepare_module, "write_sentences", None)  # calling it would fail
    log: list[str] = []

    later = dataclasses.replace(config, on_long="refuse")  # a matter of translation only
    again = prepare(later, tmp_path / "run", log.append)

    assert len(log) == 1
    assert "as prepared before" in log[0]
    assert again.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert (again.dev_pairs, again.report) == (first.dev_pairs, first.report)
    assert texts(again, "source") == texts(first, "source")


def test_prepared_data_outlives_its_corpus(config: DataConfig, tmp_path: Path) -> None:
    first = quietly(config, tmp_path / "run")
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "dev.tsv").unlink()

    assert quietly(config, tmp_path / "run").dev_pairs == first.dev_pairs


def test_taking_it_again_writes_nothing(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")

    def state() -> dict[str, tuple[int, int]]:
        paths = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = state()
    again = [quietly(config, tmp_path / "run") for _ in range(2)]  # several workers of one run

    assert texts(again[0], "target") == texts(again[1], "target")
    assert state() == before


def test_prepared_data_of_another_kind_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")

    other = dataclasses.replace(config, vocabulary_size=301, max_tokens=99)
    with pytest.raises(DataError) as caught:
        quietly(other, tmp_path / "run")

    assert "data.vocabulary_size 300, got 301" in str(caught.value)
    assert "data.max_tokens 256, got 99" in str(caught.value)


def test_a_changed_corpus_file_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    write_tsv(tmp_path / "train.tsv", TRAIN[:-1])

    with pytest.raises(DataError, match=r"train\.tsv as it was then"):
        quietly(config, tmp_path / "run")


def test_a_corpus_copied_anew_is_the_same_corpus(config: DataConfig, tmp_path: Path) -> None:
    first = quietly(config, tmp_path / "run")
    for name in ("train.tsv", "dev.tsv"):
        os.utime(tmp_path / name, (1e9, 1e9))

    assert quietly(config, tmp_path / "run").report == first.report


def test_other_text_of_the_same_size_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    path = tmp_path / "train.tsv"
    path.write_bytes(path.read_bytes().replace(b"sees", b"eyes"))
    os.utime(path, (1e9, 1e9))  # or its date might by chance be the one that it had

    with pytest.raises(DataError, match=r"train\.tsv as it was then, got a file of other content"):
        quietly(config, tmp_path / "run")


def test_a_preparation_of_another_format_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    mark = tmp_path / "run/data/fingerprint.json"
    mark.write_text(mark.read_text().replace('"format": 2', '"format": 1'))

    with pytest.raises(DataError, match=r"fingerprint\.json: expected format 2, got 1"):
        quietly(config, tmp_path / "run")


def test_files_of_a_prefix_are_watched_too(config: DataConfig, tmp_path: Path) -> None:
    for column, language in enumerate(("en", "it")):
        text = "".join(f"{pair[column]}\n" for pair in TRAIN)
        (tmp_path / f"both.{language}").write_text(text, "utf-8")
    by_prefix = dataclasses.replace(config, train=str(tmp_path / "both"))
    quietly(by_prefix, tmp_path / "run")
    (tmp_path / "both.it").write_text("nuovo\n" * len(TRAIN), "utf-8")

    with pytest.raises(DataError, match=r"both\.it as it was then"):
        quietly(by_prefix, tmp_path / "run")


def test_a_tokenizer_may_be_given(config: DataConfig, tmp_path: Path) -> None:
    given = quietly(config, tmp_path / "first").tokenizer
    fewer = dataclasses.replace(config, train=write_tsv(tmp_path / "few.tsv", TRAIN[:3]))

    prepared = quietly(fewer, tmp_path / "run", given)

    assert prepared.tokenizer.fingerprint == given.fingerprint
    assert texts(prepared, "target") == [target for _, target in TRAIN[:3]]
    own = quietly(fewer, tmp_path / "own").tokenizer
    assert own.fingerprint != given.fingerprint
    with pytest.raises(DataError, match="another one"):
        quietly(fewer, tmp_path / "run", own)


def test_another_tokenizer_in_the_run_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    fewer = dataclasses.replace(config, train=write_tsv(tmp_path / "few.tsv", TRAIN[:3]))
    quietly(fewer, tmp_path / "own").tokenizer.save(tmp_path / "run/tokenizer")

    with pytest.raises(DataError, match="expected the tokenizer that"):
        quietly(config, tmp_path / "run")


@pytest.mark.parametrize(
    "step", ["_encode_train", "_encode_dev", "_reasons_to_drop", "_write_json"]
)
def test_a_kill_at_any_step_leaves_nothing_that_counts(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, step, kill)
        with pytest.raises(Killed):
            quietly(config, tmp_path / "run")
    log: list[str] = []

    prepared = prepare(config, tmp_path / "run", log.append)

    assert not any("as prepared before" in line for line in log)
    assert texts(prepared, "source") == [source for source, _ in TRAIN]
    assert not list((tmp_path / "run/data").glob("*.partial"))


def test_a_store_cut_short_later_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    path = tmp_path / "run/data/train.source.ids"
    path.write_bytes(path.read_bytes()[:-2])

    with pytest.raises(StoreError, match=r"train\.source\.ids: expected"):
        quietly(config, tmp_path / "run")


def test_dev_must_be_named_for_files(config: DataConfig, tmp_path: Path) -> None:
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
def test_corpora_with_their_own_dev(train: str, dev: str) -> None:
    assert prepare_module._dev(DataConfig(train=train)) == dev
    assert prepare_module._dev(DataConfig(train=train, dev="mine.tsv")) == "mine.tsv"


@pytest.mark.parametrize("pairs", [[], [("", ""), (" ", "x")]])
@pytest.mark.parametrize("name", ["train", "dev"])
def test_nothing_usable_is_refused(
    config: DataConfig, tmp_path: Path, pairs: list[tuple[str, str]], name: str
) -> None:
    write_tsv(tmp_path / f"{name}.tsv", pairs)

    with pytest.raises(DataError, match=name):
        quietly(config, tmp_path / "run")
    assert not (tmp_path / "run/data/fingerprint.json").exists()


def test_a_missing_dev_file_is_refused_before_any_work(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "_learn", None)  # calling it would fail
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
