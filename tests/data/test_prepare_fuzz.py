"""Preparation of tiny corpora of any content: prepared data, or an error and no half of them."""

from __future__ import annotations

import dataclasses
import functools
import shutil
from pathlib import Path

import pytest
from hypothesis import example
from hypothesis import strategies as st

from keras_transformer.config import DataConfig
from keras_transformer.data import normalization
from keras_transformer.data.prepare import prepare
from keras_transformer.data.prepared import Prepared
from tests.data.small_corpus import DEV, TRAIN, quietly, write_tsv
from tests.support.fuzzing import attempt, fuzz

WORDS = st.sampled_from(
    ["a", "the", "1 2 3", "我", "爱我", "\u0e01\u0e32", "👩‍👩‍👧", "e\u0301", "ﬁ", "\u2581", "<s>",
     "<unk>", "</s>", "<0x41>", "\u200b", "\ufeff", "\x00", "\x1b", "\u2028", "\ufffd",
     "\U0010ffff", "\ufdfa", "ab" * 600, "\u0300" * 40, "\u3000", "%s", "\\n", "\"", "'"]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=4).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS), max_size=6)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "algorithm": st.sampled_from(["unigram", "bpe", "char"]),
        "joint": st.booleans(),
        "vocabulary_size": st.sampled_from([300, 310, 5_000]),
        "max_tokens": st.sampled_from([2, 3, 20]),
        "max_ratio": st.sampled_from([0.0, 1.5]),
        "drop_duplicates": st.booleans(),
        "drop_identical": st.booleans(),
    },
)


@pytest.fixture(autouse=True)
def normalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile the normalizers once; each takes longer than the preparation of a tiny corpus."""
    monkeypatch.setattr(normalization, "normalizer", functools.cache(normalization.normalizer))


def same(first: Prepared, second: Prepared) -> bool:
    rows = [prepared.train.batch(range(len(prepared.train))) for prepared in (first, second)]
    return (
        first.report == second.report
        and first.dev_pairs == second.dev_pairs
        and first.tokenizer.fingerprint == second.tokenizer.fingerprint
        and all((rows[0][name] == rows[1][name]).all() for name in rows[0])
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [60])
def test_a_tiny_corpus_is_prepared_or_refused(tmp_path: Path, count: int) -> None:
    run, train, dev = tmp_path / "run", tmp_path / "train.tsv", tmp_path / "dev.tsv"

    @fuzz(count, rows=ROWS, repeat=st.integers(1, 3), dev_rows=ROWS, fields=FIELDS)
    @example(rows=[("1 2 3", "4 5 6")], repeat=1, dev_rows=[("1", "4")], fields={})
    @example(rows=[("\x00", "a")], repeat=1, dev_rows=[("a", "b")], fields={"joint": False})
    @example(rows=[("\u0300", "a")], repeat=1, dev_rows=[("a", "b")], fields={"joint": False})
    def check(
        rows: list[tuple[str, str]],
        repeat: int,
        dev_rows: list[tuple[str, str]],
        fields: dict[str, object],
    ) -> None:
        shutil.rmtree(run, ignore_errors=True)
        write_tsv(train, rows * repeat)
        write_tsv(dev, dev_rows)
        config = DataConfig(train=str(train), dev=str(dev), source="en", target="it", **fields)  # type: ignore[arg-type]
        prepared, error = attempt(lambda: quietly(config, run))
        if error:
            assert "expected" in error or "cannot learn" in error
            assert not (run / "data" / "fingerprint.json").exists()
            write_tsv(train, TRAIN)
            write_tsv(dev, DEV)
            good = dataclasses.replace(config, max_tokens=200, max_ratio=0.0)
            assert len(quietly(good, run).dev) == 2  # nothing is in the way of a good corpus
            return
        report = prepared.report["train"]
        assert report["read"] == len(rows) * repeat
        assert len(prepared.train) == report["kept"] > 0
        assert report["read"] == report["kept"] + sum(report["dropped"].values())
        log: list[str] = []
        assert same(prepare(config, run, log.append), prepared)
        assert "as prepared before" in log[0]
