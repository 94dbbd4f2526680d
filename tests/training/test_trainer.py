from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from keras_transformer.config import Config
from keras_transformer.data.corpus import DataError
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run, RunError
from keras_transformer.training import trainer
from keras_transformer.training.progress import TrainingError

Reversal = Callable[..., Config]


def records(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def final_weights(run: Run) -> list[np.ndarray]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(run.path / "checkpoints"))
    names = sorted(reader.get_variable_to_shape_map())
    kept = [name for name in names if name.startswith(("weights/", "optimizer/"))]
    return [reader.get_tensor(name) for name in kept]


def test_a_short_run_leaves_a_whole_folder(reversal: Reversal, tmp_path: Path) -> None:
    run = trainer.train(reversal(), tmp_path / "run")
    names = {path.name for path in run.path.iterdir()}
    assert names == {
        "config.yaml",
        "versions.json",
        "tokenizer",
        "data",
        "log.txt",
        "metrics.jsonl",
        "checkpoints",
        "best.weights.h5",
        "dev.translations.txt",
    }
    found = records(run.path)
    assert [record["step"] for record in found] == [2, 4, 6, 6]
    assert found[-1]["averaged"] == 2
    for record in found[:-1]:
        assert record["train_perplexity"] > 1
        assert record["tokens_per_second"] > 0
    kept = {path.name for path in (run.path / "checkpoints").glob("*.index")}
    assert kept == {"step-4.index", "step-6.index"}
    assert len((run.path / "dev.translations.txt").read_text().splitlines()) == 5
    # The folder alone is enough to translate, and sizes are filled in.
    opened = Run.open(run.path)
    assert opened.config.model.source_vocabulary == opened.tokenizer().source.size
    assert len(Translator.from_run(run.path).translate(["a b c", ""])) == 2


def test_average_equals_the_mean_of_the_last_checkpoints(
    reversal: Reversal, tmp_path: Path
) -> None:
    run = trainer.train(reversal(dev_sentences=0), tmp_path / "run")
    # Without BLEU the best is chosen by dev loss; so early, the last average need not win.
    best = min(records(run.path), key=lambda record: record["dev_loss"])
    with h5py.File(run.best_weights) as file:
        assert len(file) > 0
    model = run.model()
    training = trainer.Training(run, run.prepared(print), trainer.Journal(tmp_path))
    training.model.set_weights(model.get_weights())
    scores, translations = training._evaluate()
    assert scores["dev_loss"] == pytest.approx(best["dev_loss"], rel=1e-5)
    assert translations == []


def test_stopped_and_resumed_equals_never_stopped(reversal: Reversal, tmp_path: Path) -> None:
    whole = trainer.train(reversal(max_steps=6), tmp_path / "whole")
    part = trainer.train(reversal(max_steps=4), tmp_path / "part")
    longer = dataclasses.replace(
        part.config, train=dataclasses.replace(part.config.train, max_steps=6)
    )
    resumed = trainer.train(longer, part.path, resume=True)
    for ours, theirs in zip(final_weights(resumed), final_weights(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [record["step"] for record in records(part.path)] == [2, 4, 4, 6, 6]


def test_resuming_a_finished_run_trains_no_further(reversal: Reversal, tmp_path: Path) -> None:
    run = trainer.train(reversal(), tmp_path / "run")
    before = final_weights(run)
    again = trainer.train(run.config, run.path, resume=True)
    for ours, theirs in zip(final_weights(again), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_max_minutes_stops_with_a_checkpoint(reversal: Reversal, tmp_path: Path) -> None:
    # Over at once: the first step is the last.
    run = trainer.train(reversal(max_steps=1000, max_minutes=1e-6), tmp_path / "run")
    assert records(run.path)[0]["step"] == 1
    assert run.best_weights.exists()


def test_an_existing_run_is_not_overwritten(reversal: Reversal, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("1")
    with pytest.raises(RunError, match="exists already; go on with it by --resume"):
        trainer.train(reversal(), tmp_path / "run")
    assert (tmp_path / "run" / "precious").read_text() == "1"


def test_bad_data_leave_nothing_behind(reversal: Reversal, tmp_path: Path) -> None:
    config = reversal()
    (tmp_path / "train.b").write_text("one line\n")
    with pytest.raises(DataError, match="300"):
        trainer.train(config, tmp_path / "runs" / "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_another_architecture_is_not_resumed(reversal: Reversal, tmp_path: Path) -> None:
    run = trainer.train(reversal(max_steps=1), tmp_path / "run")
    wider = dataclasses.replace(run.config, model=dataclasses.replace(run.config.model, d_ff=64))
    with pytest.raises(RunError, match=r"model\.d_ff: 32, now 64"):
        trainer.train(wider, run.path, resume=True)


def test_a_changed_corpus_is_not_resumed(reversal: Reversal, tmp_path: Path) -> None:
    run = trainer.train(reversal(max_steps=1), tmp_path / "run")
    with (tmp_path / "train.a").open("a") as file:
        file.write("a b\n")
    with pytest.raises(DataError, match="train"):
        trainer.train(run.config, run.path, resume=True)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_checkpoint(
    reversal: Reversal, tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf)"):
        trainer.train(reversal(learning_rate_factor=1e30, max_steps=50), tmp_path / "run")


def test_bfloat16_trains(reversal: Reversal, tmp_path: Path) -> None:
    run = trainer.train(reversal(precision="bfloat16"), tmp_path / "run")
    single = trainer.train(reversal(), tmp_path / "single")
    ours, theirs = records(run.path)[2], records(single.path)[2]
    assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=2e-2)
    assert run.model().dtype_policy.name == "float32"


@pytest.mark.slow
def test_xla_gives_the_losses_of_plain_execution(reversal: Reversal, tmp_path: Path) -> None:
    # Batches differ, since their shapes are fixed; the dev set is the same. Dropout draws
    # other numbers in other shapes, hence none.
    config = reversal(jit=True, max_steps=1, checkpoint_every=1)
    model = dataclasses.replace(config.model, dropout=0.0, attention_dropout=0.0)
    config = dataclasses.replace(config, model=model)
    compiled = trainer.train(config, tmp_path / "compiled")
    train = dataclasses.replace(compiled.config.train, jit=False)
    plain = dataclasses.replace(compiled, config=dataclasses.replace(compiled.config, train=train))
    training = trainer.Training(plain, compiled.prepared(print), trainer.Journal(tmp_path))
    training.model.set_weights(compiled.model().get_weights())
    scores, _ = training._evaluate()
    assert records(compiled.path)[0]["dev_loss"] == pytest.approx(scores["dev_loss"], rel=1e-5)


@pytest.mark.slow
def test_it_learns_to_reverse(reversal: Reversal, tmp_path: Path) -> None:
    config = reversal(
        max_steps=500, batch_tokens=1000, warmup_steps=100, checkpoint_every=250, dev_sentences=20
    )
    model = dataclasses.replace(
        config.model, d_model=64, heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0
    )
    data = dataclasses.replace(config.data, vocabulary=300)
    run = trainer.train(dataclasses.replace(config, model=model, data=data), tmp_path / "run")
    assert max(record["dev_bleu"] for record in records(run.path)) > 60
    translator = Translator.from_run(run.path)
    lines = ["a b c", "", "h g f e", "a"]
    together = [item.text for item in translator.translate(lines)]
    assert together == [translator.translate([line])[0].text for line in lines]
    assert together[1] == ""
