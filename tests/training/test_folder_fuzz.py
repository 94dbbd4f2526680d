"""Run folders with one damaged file: an error that names it, or the right answer."""

from __future__ import annotations

import dataclasses
import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.training import trainer
from keras_transformer.training.best_weights import BestWeights
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.parts import TrainingParts, build_parts
from keras_transformer.training.reporting.reporter import Reporter
from keras_transformer.training.reporting.run_log import RunLog
from keras_transformer.training.resuming import restore
from tests.support.damage import (
    Damage,
    apply,
    attempt,
    contents,
    damages,
    fresh_copy,
    harmless,
    time_limit,
)
from tests.support.fuzzing import fuzz
from tests.training.helpers import Reversal, with_train


@pytest.fixture(scope="module")
def other(reversal: Reversal, trained: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the same shapes, with another tokenizer and other checkpoints."""
    config = reversal()
    data = dataclasses.replace(config.data, algorithm="bpe", max_tokens=99)
    path = tmp_path_factory.mktemp("runs") / "other"
    config = dataclasses.replace(config, data=data)
    run, _ = Run.create(path, config, lambda line: None)
    run.save_best(transformer.build(run.config.model))
    (path / "checkpoints").mkdir()
    for file in (trained.path / "checkpoints").iterdir():  # those of 2 and 4 as 4 and 6
        step = int(file.name.split(".")[0].removeprefix("step-"))
        name = file.name.replace(f"step-{step}", f"step-{step + 2}")
        shutil.copy(file, path / "checkpoints" / name)
    lines = (trained.path / "metrics.jsonl").read_text().splitlines(keepends=True)
    scored = [line.replace('"step"', '"dev_bleu": 1.5, "step"') for line in lines[1:]]
    (path / "metrics.jsonl").write_text("".join(scored))
    return path


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Free the models of the examples, gigabytes; the other tests have no collection."""
    yield
    gc.collect()


# Translation


@pytest.mark.slow
def test_a_damaged_run_translates_right_or_not_at_all(
    trained: Run, other: Path, tmp_path: Path
) -> None:
    expected = trained.model().get_weights()
    fingerprint = trained.tokenizer().fingerprint

    @fuzz(100, damage=damages(trained.path))
    def check(damage: Damage) -> None:
        with fresh_copy(trained.path, tmp_path / "run") as copy, time_limit():
            apply(damage, copy, other)
            before = contents(copy)
            translator, error = attempt(lambda: Translator.from_run(copy))
            assert contents(copy) == before
            if error:
                assert not harmless(damage, trained.path, other), error
                assert Path(damage.file).name.split(".")[0] in error
                return
            assert translator.tokenizer.fingerprint == fingerprint
            run = Run.open(copy)
            if (damage.file, damage.kind) != ("config.yaml", "swapped"):
                assert run.config == trained.config
            np.testing.assert_equal(run.model().get_weights(), expected)


@pytest.mark.slow
def test_a_damaged_tokenizer_is_refused(trained: Run, other: Path, tmp_path: Path) -> None:
    """Alone, a file cut between two pieces is a smaller tokenizer; in a run it is refused."""
    folder = trained.path / "tokenizer"
    fingerprint = trained.tokenizer().fingerprint

    @fuzz(100, damage=damages(folder))
    def check(damage: Damage) -> None:
        with fresh_copy(folder, tmp_path / "tokenizer") as copy, time_limit():
            apply(damage, copy, other / "tokenizer")
            found, error = attempt(lambda: Tokenizer.load(copy).fingerprint)
            same = harmless(damage, folder, other / "tokenizer")
            assert (found == fingerprint) == same
            if not same:
                assert "joint.model" in error or damage.kind in ("cut", "swapped")


# Resuming


@pytest.fixture(scope="module")
def loader(trained: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Any]:
    """Load a folder as a resumed training does, with a model that is built once."""
    copy = tmp_path_factory.mktemp("runs") / "resumed"
    run = Run.open(shutil.copytree(trained.path, copy))
    built = build_parts(run, run.prepared(print), RunLog(copy, silent=True), Distribution())
    start = [variable.numpy() for variable in built.model.variables]

    def load(path: Path) -> TrainingParts:
        for variable, value in zip(built.model.variables, start, strict=True):
            variable.assign(value)
        built.model.optimizer.iterations.assign(0)
        run, run_log = Run.open(path), RunLog(path)
        config = run.config.train
        state = dataclasses.replace(built.state)
        parts = dataclasses.replace(
            built,
            run=run,
            run_log=run_log,
            prepared=run.prepared(lambda line: None),
            state=state,
            checkpoints=Checkpoints(path / "checkpoints", built.model, state, config.average),
            best=BestWeights(run, config, state, writes=True),
            reporter=Reporter(run, run_log, built.dev_set, writes=True),
        )
        restore(parts)
        return parts

    return load


def saved_weights(run: Run, step: int) -> list[np.ndarray]:
    """Return the weights of a checkpoint."""
    reader = tf.train.load_checkpoint(str(run.path / "checkpoints" / f"step-{step}"))
    count = sum(name.startswith("weights/") for name in reader.get_variable_to_shape_map())
    return [reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE") for i in range(count)]


@pytest.mark.slow
def test_a_damaged_run_resumes_exactly_or_not_at_all(
    trained: Run, other: Path, loader: Callable[[Path], Any], tmp_path: Path
) -> None:
    saved = {step: saved_weights(trained, step) for step in (2, 4, 6)}

    @fuzz(60, damage=damages(trained.path))
    def check(damage: Damage) -> None:
        with fresh_copy(trained.path, tmp_path / "run") as copy, time_limit():
            apply(damage, copy, other)
            before = contents(copy)
            parts, error = attempt(lambda: loader(copy))
            same = harmless(damage, trained.path, other)
            after = contents(copy)
            # Nothing else is lost; a checkpoint without its index is none.
            spared = (damage.file.removesuffix("index"), "checkpoints/step-6")
            for name in before.keys() - {damage.file}:
                if not name.startswith((*spared, "metrics", "steps", "log")):
                    assert after[name] == before[name] or name == "config.yaml"
            if error:
                assert not same, error
                assert not damage.file.startswith("checkpoints/")
                return
            lost = damage.file.startswith("checkpoints/step-6") and not same
            assert parts.state.step == (4 if lost else 6)
            np.testing.assert_equal(parts.model.get_weights(), saved[parts.state.step])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cut", "link to itself", "folder", "pipe", "unreadable"])
def test_a_damaged_report_does_not_break_a_training(
    complete: Run, other: Path, tmp_path: Path, kind: str
) -> None:
    """Logs, pictures and records, through `train` itself: finished, or refused."""
    longer = with_train(complete.config, max_steps=5)
    names = ("log.txt", "metrics.jsonl", "steps.jsonl", "dev.translations.txt", "curves.png")
    files = [name for name in names if (complete.path / name).exists()]
    for folder in ("best", "tensorboard"):
        files += sorted(
            str(path.relative_to(complete.path))
            for path in (complete.path / folder).rglob("*")
            if path.is_file()
        )[:1]
    for file in files:
        with fresh_copy(complete.path, tmp_path / "run") as copy, time_limit(120):
            apply(Damage(file, kind), copy, other)
            run, error = attempt(lambda folder=copy: trainer.train(longer, folder, resume=True))
            assert error or run.model().count_params()
