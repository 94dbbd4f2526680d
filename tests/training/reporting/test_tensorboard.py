from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference.alignment import Attention
from keras_transformer.optional_dependencies import MissingError, unusable
from keras_transformer.run import Run
from keras_transformer.training import trainer
from keras_transformer.training.reporting import reporter, tensorboard
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.scores import Example
from tests.training.helpers import Reversal, with_train

needs_both = pytest.mark.skipif(
    bool(unusable(["tensorboard", "matplotlib"])), reason="tensorboard and matplotlib are optional"
)


def events(run: Path) -> dict[tuple[str, str], list[int]]:
    """Return the steps of each tag in each folder, over all files, with duplicates."""
    found: dict[tuple[str, str], list[int]] = {}
    for file in sorted((run / "tensorboard").glob("*/*.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found.setdefault((file.parent.name, value.tag), []).append(event.step)
    return found


def write_events(run: Path, steps: list[int]) -> Path:
    """Write an event file like TensorFlow's, without the package tensorboard."""
    folder = run / "tensorboard" / "train"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{len(list(folder.iterdir()))}"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(tf.compat.v1.Event(file_version="brain.Event:2").SerializeToString())
        for step in steps:
            value = tf.compat.v1.Summary.Value(tag="loss", simple_value=1.0)
            event = tf.compat.v1.Event(step=step, summary=tf.compat.v1.Summary(value=[value]))
            writer.write(event.SerializeToString())
    return path


def test_events_of_repeated_steps_are_removed(tmp_path: Path) -> None:
    write_events(tmp_path, [1, 2, 3])
    cut = write_events(tmp_path, [4, 5, 6])
    cut.write_bytes(cut.read_bytes()[:-3])  # as a kill leaves it
    tensorboard.truncate(tmp_path, 5)
    assert events(tmp_path) == {("train", "loss"): [1, 2, 3, 4, 5]}
    tensorboard.truncate(tmp_path, 2)
    assert events(tmp_path) == {("train", "loss"): [1, 2]}
    tensorboard.truncate(tmp_path / "without", 2)


def test_the_first_event_which_names_the_format_is_kept(tmp_path: Path) -> None:
    path = write_events(tmp_path, [3])
    tensorboard.truncate(tmp_path, 0)
    [record] = tf.data.TFRecordDataset(str(path))
    assert tf.compat.v1.Event.FromString(record.numpy()).file_version == "brain.Event:2"


def test_a_table_shows_text_as_it_is() -> None:
    examples = [Example("a | b", "*c*", "<d>"), Example("---", "", "e")]
    assert tensorboard.markdown_table(examples).splitlines() == [
        "| source | reference | translation |",
        "| --- | --- | --- |",
        r"| a \| b | \*c\* | \<d\> |",
        "| --- |  | e |",
    ]


def test_a_missing_package_is_named_before_anything_is_written(
    reversal: Reversal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # importing it fails
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))
    message = (
        r"train\.tensorboard: expected tensorboard and matplotlib to be installed, tensorboard "
        r'is not: pip install "keras-translate\[tensorboard\]"$'
    )
    with pytest.raises(MissingError, match=message):
        trainer.train(reversal(tensorboard=True), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_cannot_be_imported_is_missing() -> None:
    assert unusable(["math", "no_such_library", "json"]) == {"no_such_library": ""}


@needs_both
def test_attention_is_drawn_with_a_row_for_each_token_and_its_text() -> None:
    weights = np.array([[0.9, 0.1], [0.2, 0.8], [0.0, 1.0]], np.float32)
    attention = Attention(("▁a$", "</s>"), ("▁b", "我", "</s>"), weights, (0,), (0, 0))
    figure = tensorboard.attention_figure(attention)
    [axes] = figure.axes
    np.testing.assert_array_equal(axes.get_images()[0].get_array(), weights)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["▁b", "我", "</s>"]
    pixels = tensorboard._pixels(figure)
    assert pixels.shape[0] == 1
    assert pixels.shape[-1] == 3
    assert pixels.min() < 128 < pixels.max()


def test_attention_that_cannot_be_drawn_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")

    def fail(attention: Attention) -> None:
        raise RuntimeError("no font\nmore")

    monkeypatch.setattr(tensorboard, "attention_figure", fail)
    attention = Attention(("a",), ("b",), np.ones((1, 1), np.float32), (0,), (0,))
    log: list[str] = []
    writer = tensorboard.TensorBoardWriter(tmp_path, log.append)
    writer.dev(1, {"dev_loss": 2.0}, [Example("a", "b", "c")], [attention, attention])
    writer.close()
    assert log == [f"{tmp_path / 'tensorboard'}: attention not drawn: no font"]
    assert events(tmp_path) == {("dev", "loss"): [1], ("dev", "translations"): [1]}


# The run `complete` has a progress line and a checkpoint in each step.


def expected(last: int) -> dict[tuple[str, str], list[int]]:
    """Return the steps of each tag of `complete`, trained up to step ``last``."""
    steps = list(range(1, last + 1))
    metrics = ("loss", "perplexity", "learning rate", "gradient norm")
    speeds = ("source tokens per second", "target tokens per second")
    found = {("train", name): steps for name in (*metrics, *speeds)}
    for name in ("loss", "perplexity", "BLEU"):
        found["dev", name] = steps
        found["average", name] = found["ema", name] = [last]
    for name in ("translations", "attention/1", "attention/2", "attention/3"):
        found["dev", name] = steps
    return found


@needs_both
def test_a_run_has_its_metrics_texts_and_images(complete: Run) -> None:
    assert events(complete.path) == expected(4)


@needs_both
def test_the_metrics_are_those_of_the_records(complete: Run) -> None:
    run_log = RunLog(complete.path)
    for folder, tag, field, records in (
        ("dev", "BLEU", "dev_bleu", run_log.records()[:4]),
        ("train", "loss", "train_loss", run_log.steps()),
    ):
        [file] = (complete.path / "tensorboard" / folder).iterdir()
        values = [
            float(tf.make_ndarray(value.tensor))
            for record in tf.data.TFRecordDataset(str(file))
            for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value
            if value.tag == tag
        ]
        assert values == pytest.approx([record[field] for record in records], rel=1e-5)


@needs_both
def test_a_killed_run_continues_without_repeated_or_later_steps(complete_resumed: Run) -> None:
    assert events(complete_resumed.path) == expected(4)


@pytest.mark.parametrize("writes", [True, False])
def test_only_the_chief_writes(trained: Run, writes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(reporter, "TensorBoardWriter", lambda path, log: made.append(path))
    run = dataclasses.replace(trained, config=with_train(trained.config, tensorboard=True))
    reporter.Reporter(run, RunLog(run.path, silent=True), None, writes)
    assert made == [trained.path] * writes
