"""Prepared data: loaded if nothing has changed, refused otherwise."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from keras_transformer.config import DataConfig
from keras_transformer.data import prepare as prepare_module
from keras_transformer.data.errors import DataError
from keras_transformer.data.prepare import prepare
from keras_transformer.data.store import StoreError
from tests.data.small_corpus import TRAIN, quietly, texts, write_tsv


def test_prepared_data_are_loaded(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = quietly(config, tmp_path / "run")
    monkeypatch.setattr(prepare_module, "write_store", None)  # a call would fail
    log: list[str] = []

    later = dataclasses.replace(config, on_long="refuse")  # about translation only
    again = prepare(later, tmp_path / "run", log.append)

    assert len(log) == 1
    assert "as prepared before" in log[0]
    assert again.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert (again.dev_pairs, again.report) == (first.dev_pairs, first.report)
    assert texts(again, "source") == texts(first, "source")


def test_prepared_data_do_not_need_the_corpus(config: DataConfig, tmp_path: Path) -> None:
    first = quietly(config, tmp_path / "run")
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "dev.tsv").unlink()

    assert quietly(config, tmp_path / "run").dev_pairs == first.dev_pairs


def test_loading_writes_nothing(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")

    def state() -> dict[str, tuple[int, int]]:
        paths = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = state()
    again = [quietly(config, tmp_path / "run") for _ in range(2)]  # two workers of one run

    assert texts(again[0], "target") == texts(again[1], "target")
    assert state() == before


def test_data_of_another_configuration_are_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")

    other = dataclasses.replace(config, vocabulary_size=301, max_tokens=99)
    with pytest.raises(DataError) as caught:
        quietly(other, tmp_path / "run")

    assert "data.vocabulary_size 300, got 301" in str(caught.value)
    assert "data.max_tokens 256, got 99" in str(caught.value)


def test_a_field_that_an_earlier_version_did_not_have_has_its_default(
    config: DataConfig, tmp_path: Path
) -> None:
    quietly(config, tmp_path / "run")
    path = tmp_path / "run" / "data" / "fingerprint.json"
    values = json.loads(path.read_text())
    del values["data"]["source_end"]
    path.write_text(json.dumps(values))

    quietly(config, tmp_path / "run")
    with pytest.raises(DataError, match=r"data\.source_end True, got False"):
        quietly(dataclasses.replace(config, source_end=False), tmp_path / "run")


def test_a_changed_corpus_file_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    write_tsv(tmp_path / "train.tsv", TRAIN[:-1])

    with pytest.raises(DataError, match=r"train\.tsv unchanged"):
        quietly(config, tmp_path / "run")


def test_a_copied_corpus_is_the_same_corpus(config: DataConfig, tmp_path: Path) -> None:
    first = quietly(config, tmp_path / "run")
    for name in ("train.tsv", "dev.tsv"):
        os.utime(tmp_path / name, (1e9, 1e9))

    assert quietly(config, tmp_path / "run").report == first.report


def test_other_text_of_the_same_size_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    path = tmp_path / "train.tsv"
    path.write_bytes(path.read_bytes().replace(b"sees", b"eyes"))
    os.utime(path, (1e9, 1e9))  # the time of the write could be the same

    with pytest.raises(DataError, match=r"train\.tsv unchanged, got a file of other content"):
        quietly(config, tmp_path / "run")


def test_a_preparation_of_another_format_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    mark = tmp_path / "run/data/fingerprint.json"
    mark.write_text(mark.read_text().replace('"format": 2', '"format": 1'))

    with pytest.raises(DataError, match=r"fingerprint\.json: expected format 2, got 1"):
        quietly(config, tmp_path / "run")


def test_changed_files_of_a_prefix_are_refused(config: DataConfig, tmp_path: Path) -> None:
    for column, language in enumerate(("en", "it")):
        text = "".join(f"{pair[column]}\n" for pair in TRAIN)
        (tmp_path / f"both.{language}").write_text(text, "utf-8")
    by_prefix = dataclasses.replace(config, train=str(tmp_path / "both"))
    quietly(by_prefix, tmp_path / "run")
    (tmp_path / "both.it").write_text("nuovo\n" * len(TRAIN), "utf-8")

    with pytest.raises(DataError, match=r"both\.it unchanged"):
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


def test_a_truncated_store_is_refused(config: DataConfig, tmp_path: Path) -> None:
    quietly(config, tmp_path / "run")
    path = tmp_path / "run/data/train.source.ids"
    path.write_bytes(path.read_bytes()[:-2])

    with pytest.raises(StoreError, match=r"train\.source\.ids: expected"):
        quietly(config, tmp_path / "run")
