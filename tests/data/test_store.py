"""The encoded store: reading returns what was written, and a damaged store is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer import system
from keras_transformer.data.store import EncodedSentences, EncodedStore, StoreError, write_store

Block = tuple[EncodedSentences, EncodedSentences]


def block(*pairs: tuple[list[int], list[int]]) -> Block:
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    return EncodedSentences.from_lists(sources), EncodedSentences.from_lists(targets)


PAIRS = [block(([7, 8, 9], [10]), ([], [11, 12])), block(([13], []))]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "data" / "train.v1"  # the dot belongs to the name


def test_a_batch_by_hand(prefix: Path) -> None:
    write_store(prefix, PAIRS)
    store = EncodedStore(prefix)

    batch = store.batch([0, 1, 2])

    assert len(store) == 3
    assert store.source_lengths.tolist() == [4, 1, 2]
    assert store.target_lengths.tolist() == [2, 3, 1]
    assert batch["source"].tolist() == [[7, 8, 9, 3], [3, 0, 0, 0], [13, 3, 0, 0]]
    assert batch["target"].tolist() == [[2, 10, 0], [2, 11, 12], [2, 0, 0]]
    assert batch["labels"].tolist() == [[10, 3, 0], [11, 12, 3], [3, 0, 0]]
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}


def test_sources_without_end(prefix: Path) -> None:
    """An empty source is END alone."""
    write_store(prefix, PAIRS, source_end=False)
    store = EncodedStore(prefix)

    batch = store.batch([0, 1, 2], shape=(4, 4, 3))

    assert store.source_lengths.tolist() == [3, 1, 1]
    assert store.target_lengths.tolist() == [2, 3, 1]
    assert batch["source"].tolist() == [[7, 8, 9, 0], [3, 0, 0, 0], [13, 0, 0, 0], [0, 0, 0, 0]]
    assert batch["labels"].tolist() == [[10, 3, 0], [11, 12, 3], [3, 0, 0], [0, 0, 0]]
    assert store.batch([0, 2])["source"].tolist() == [[7, 8, 9], [13, 0, 0]]


def test_a_header_with_another_kind_of_end_is_refused(prefix: Path) -> None:
    write_store(prefix, PAIRS, source_end=False)
    header = prefix.with_name(f"{prefix.name}.json")
    header.write_text(header.read_text().replace("false", '"no"'))
    with pytest.raises(StoreError, match="header of an encoded store: source_end is 'no'"):
        EncodedStore(prefix)


def test_rows_and_columns_added_by_a_shape_are_padding(prefix: Path) -> None:
    write_store(prefix, PAIRS)

    batch = EncodedStore(prefix).batch([2, 1], shape=(3, 3, 4))

    assert batch["source"].tolist() == [[13, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert batch["target"].tolist() == [[2, 0, 0, 0], [2, 11, 12, 0], [0, 0, 0, 0]]
    assert batch["labels"].tolist() == [[3, 0, 0, 0], [11, 12, 3, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("shape", [(1, 9, 9), (2, 3, 9), (2, 9, 2)])
def test_a_shape_that_is_too_small_is_refused(prefix: Path, shape: tuple[int, int, int]) -> None:
    write_store(prefix, PAIRS)

    with pytest.raises(StoreError, match=r"at least \(2, 4, 3\)"):
        EncodedStore(prefix).batch([0, 1], shape)


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.lists(st.integers(4, 99), max_size=6), st.lists(st.integers(4, 99))),
        min_size=1,
        max_size=20,
    ),
    size=st.integers(1, 7),
)
def test_reading_returns_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[int], list[int]]], size: int
) -> None:
    prefix = tmp_path_factory.mktemp("store") / "train"
    blocks = (block(*pairs[start : start + size]) for start in range(0, len(pairs), size))
    write_store(prefix, blocks, vocabulary_size=100)
    store = EncodedStore(prefix)

    for index, (source, target) in enumerate(pairs):
        batch = store.batch([index])
        assert batch["source"].tolist() == [[*source, 3]]
        assert batch["target"].tolist() == [[2, *target]]
        assert batch["labels"].tolist() == [[*target, 3]]


@pytest.mark.parametrize(
    ("vocabulary", "largest", "width"),
    [(65_536, 65_535, 2), (65_537, 65_536, 4), (300_000, 299_999, 4)],
)
def test_ids_take_two_bytes_if_the_vocabulary_allows(
    prefix: Path, vocabulary: int, largest: int, width: int
) -> None:
    write_store(prefix, [block(([largest], [5]))], vocabulary)

    assert (prefix.parent / "train.v1.source.ids").stat().st_size == width
    assert EncodedStore(prefix).batch([0])["source"].tolist() == [[largest, 3]]


@pytest.mark.parametrize("bad", [-1, 0, 2, 3, 100, 70_000])
def test_special_ids_and_ids_out_of_range_are_refused(prefix: Path, bad: int) -> None:
    blocks = [block(([7], [8, 9]), ([7], [])), block(([7], [9, bad]))]
    with pytest.raises(StoreError, match=rf"target, pair 3: expected ids below 100 .* got {bad}"):
        write_store(prefix, blocks, vocabulary_size=100)
    assert not list(prefix.parent.iterdir())


def test_no_pairs_are_refused(prefix: Path) -> None:
    with pytest.raises(StoreError, match="at least one encoded pair"):
        write_store(prefix, [])
    assert not list(prefix.parent.iterdir())


def test_a_failure_while_writing_leaves_the_earlier_store(prefix: Path) -> None:
    def failing() -> Iterator[Block]:
        yield block(([20], [21]))
        raise KeyboardInterrupt

    write_store(prefix, PAIRS)
    with pytest.raises(KeyboardInterrupt):
        write_store(prefix, failing())

    assert EncodedStore(prefix).source_lengths.tolist() == [4, 1, 2]
    assert len(list(prefix.parent.iterdir())) == 5


def test_a_kill_between_the_renames_leaves_no_valid_store(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    write_store(prefix, PAIRS)
    replace = system.os.replace
    renamed: list[Path] = []

    def killed_at_the_third(source: Path, destination: Path) -> None:
        if len(renamed) == 2:
            raise Killed
        renamed.append(destination)
        replace(source, destination)

    monkeypatch.setattr(system.os, "replace", killed_at_the_third)
    with pytest.raises(Killed):
        write_store(prefix, [block(([20], [21]))])

    with pytest.raises(StoreError, match="no such file"):
        EncodedStore(prefix)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", ["ids", "lengths"])
@pytest.mark.parametrize("damage", ["cut", "longer", "gone"])
def test_a_damaged_store_is_refused(prefix: Path, side: str, kind: str, damage: str) -> None:
    write_store(prefix, PAIRS)
    path = prefix.parent / f"train.v1.{side}.{kind}"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] if damage == "cut" else whole + b"\0\0\0\0")

    with pytest.raises(StoreError, match=rf"{side}.{kind}: expected {len(whole)} bytes"):
        EncodedStore(prefix)


def test_lengths_that_do_not_match_the_ids_are_refused(prefix: Path) -> None:
    write_store(prefix, PAIRS)
    path = prefix.parent / "train.v1.source.lengths"
    np.array([4, 1, 3], "<i4").tofile(path)

    with pytest.raises(StoreError, match="do not match"):
        EncodedStore(prefix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected the header of an encoded store"),
        ("[]", "expected the header of an encoded store"),
        ("{}", "expected the header of an encoded store"),
        (json.dumps({"format": 2, "ids": "<u2"}), "expected format 1, got 2"),
    ],
)
def test_a_bad_header_is_refused(prefix: Path, text: str, message: str) -> None:
    write_store(prefix, PAIRS)
    (prefix.parent / "train.v1.json").write_text(text)

    with pytest.raises(StoreError, match=message):
        EncodedStore(prefix)


def test_writing_holds_one_block_in_memory(prefix: Path) -> None:
    alive = most = 0

    class CountedSentences(EncodedSentences):
        def __init__(self, ids: np.ndarray, lengths: np.ndarray) -> None:
            nonlocal alive, most
            super().__init__(ids, lengths)
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    write_store(prefix, ((CountedSentences.from_lists([[9, 9]]),) * 2 for _ in range(100)))

    assert len(EncodedStore(prefix)) == 100
    assert most <= 2  # one block, and the next while it is made


def test_sentences_are_selected_and_truncated() -> None:
    sentences = EncodedSentences.from_lists([[4, 5, 6], [], [7]])

    selected = sentences.select(np.array([True, False, True]))
    assert (selected.ids.tolist(), selected.lengths.tolist()) == ([4, 5, 6, 7], [3, 1])
    truncated = sentences.truncate(2)
    assert (truncated.ids.tolist(), truncated.lengths.tolist()) == ([4, 5, 7], [2, 0, 1])
