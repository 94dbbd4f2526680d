from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.config import Config
from keras_transformer.data.errors import DataError
from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.inference.translator import Translator
from keras_transformer.optional_dependencies import unusable
from keras_transformer.run import Run, RunError
from keras_transformer.training import trainer
from keras_transformer.training.errors import TrainingError
from keras_transformer.training.reporting.run_log import RunLog
from tests.training.helpers import Reversal, records, steps, with_train

# An uninterrupted run


def test_a_run_leaves_a_complete_folder(complete: Run) -> None:
    names = {path.name for path in complete.path.iterdir()}
    assert names - {"curves.png", "tensorboard"} == {
        "config.yaml",
        "versions.json",
        "tokenizer",
        "data",
        "log.txt",
        "metrics.jsonl",
        "steps.jsonl",
        "checkpoints",
        "best.weights.h5",
        "best",
        "dev.translations.txt",
    }
    assert ("curves.png" in names) == (not unusable(["matplotlib"]))
    assert ("tensorboard" in names) == complete.config.train.tensorboard
    found = records(complete)
    assert [record["step"] for record in found] == [1, 2, 3, 4, 4, 4]
    assert found[-2]["averaged"] == 3
    for record in found[:-2]:
        assert record["train_perplexity"] > 1
        assert record["tokens_per_second"] > 0
    rates = RunLog(complete.path).steps()
    assert [record["step"] for record in rates] == [1, 2, 3, 4]
    assert rates[0]["learning_rate"] < rates[-1]["learning_rate"]
    kept = {path.name for path in (complete.path / "checkpoints").glob("*.index")}
    assert kept == {f"step-{step}.index" for step in (1, 2, 3, 4)}
    assert len((complete.path / "dev.translations.txt").read_text().splitlines()) == 5
    log = (complete.path / "log.txt").read_text()
    assert "tokenizer: learning a vocabulary of 300" in log  # logged before the folder existed
    assert "average of the last 3 checkpoints" in log
    # The folder alone is enough to translate; vocabulary sizes are filled in.
    opened = Run.open(complete.path)
    assert opened.config.model.source_vocabulary_size == opened.tokenizer().source.size
    assert len(Translator.from_run(complete.path).translate(["a b c", ""])) == 2


def test_an_existing_run_is_not_overwritten(trained: Run) -> None:
    before = (trained.path / "metrics.jsonl").read_text()
    with pytest.raises(RunError, match="exists already; continue it with --resume"):
        trainer.train(trained.config, trained.path)
    assert (trained.path / "metrics.jsonl").read_text() == before


def test_without_bleu_the_lowest_dev_loss_is_best(trained: Run) -> None:
    best = min(records(trained), key=lambda record: record["dev_loss"])
    parts = trainer.Trainer(trained, trained.prepared(print), RunLog(trained.path)).parts
    parts.model.set_weights(trained.model().get_weights())
    scores, translations = parts.dev_set.evaluate()
    assert scores.keys() == {"dev_loss", "dev_perplexity"}
    assert scores["dev_loss"] == pytest.approx(best["dev_loss"], rel=1e-5)
    assert translations == []
    assert not (trained.path / "dev.translations.txt").exists()


@pytest.mark.slow
def test_patience_ends_a_run_without_improvement(reversal: Reversal, tmp_path: Path) -> None:
    """At a rate of almost zero no checkpoint is better than the first, at step 2."""
    config = reversal(learning_rate_factor=1e-30, best_by="loss", patience=3, max_steps=100)
    run = trainer.train(config, tmp_path / "run")
    assert steps(run) == [2, 4, 6, 8, 8]
    longer = trainer.train(with_train(run.config, patience=4), tmp_path / "run", resume=True)
    assert steps(longer) == [2, 4, 6, 8, 8, 10, 10]


@pytest.mark.slow
def test_bfloat16_trains(reversal: Reversal, trained: Run, tmp_path: Path) -> None:
    run = trainer.train(reversal(precision="bfloat16", max_steps=2), tmp_path / "run")
    ours, theirs = records(run)[0], records(trained)[0]
    assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=2e-2)
    assert run.model().dtype_policy.name == "float32"


# Failures


def test_bad_data_leave_no_run_behind(reversal: Reversal, tmp_path: Path) -> None:
    (tmp_path / "bad.a").write_text("a b\nc d\n")
    (tmp_path / "bad.b").write_text("one line\n")
    config = reversal()
    data = dataclasses.replace(config.data, train=str(tmp_path / "bad"))
    with pytest.raises(DataError, match="2 lines.*1"):
        trainer.train(dataclasses.replace(config, data=data), tmp_path / "runs" / "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_bleu_that_cannot_be_computed_is_refused_at_once(
    reversal: Reversal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        TOKENIZERS, TOKENIZER_DEFAULT = ("13a", "ko-mecab"), "13a"

        def __init__(self, **options: object) -> None:
            raise ImportError

    monkeypatch.setattr("keras_transformer.evaluation.tokenization.BLEU", Missing)
    config = reversal(dev_sentences=5)
    korean = dataclasses.replace(config, data=dataclasses.replace(config.data, target="ko"))
    with pytest.raises(EvaluationError, match=r"pip install 'sacrebleu\[ko\]'"):
        trainer.train(korean, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def diverging(config: Config) -> Config:
    """Return the configuration with a learning rate that no user can give."""
    object.__setattr__(config.train, "learning_rate_factor", 1e30)
    return config


@pytest.mark.slow
def test_dev_bleu_follows_the_text(reversal: Reversal, tmp_path: Path) -> None:
    """`cn` is no language code; without spaces, 13a would give BLEU 0 forever."""
    rng = random.Random(0)
    lines = ["".join(rng.choices("天地人日月山水火", k=rng.randint(4, 8))) for _ in range(100)]
    for language, text in (("a", lines), ("cn", lines[::-1])):
        (tmp_path / f"chinese.{language}").write_text("\n".join(text), encoding="utf-8")
    corpus = str(tmp_path / "chinese")
    config = reversal(dev_sentences=20, max_steps=2)
    data = dataclasses.replace(config.data, train=corpus, dev=corpus, target="cn")
    config = dataclasses.replace(config, data=data)
    trainer.train(config, tmp_path / "run")
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert log.count("BLEU tokenizer: zh, chosen by the text (Chinese characters)") == 1
    assert "--train.bleu_tokenizer chooses another" in log
    trainer.train(with_train(config, bleu_tokenizer="char"), tmp_path / "chosen")
    assert "BLEU tokenizer" not in (tmp_path / "chosen" / "log.txt").read_text(encoding="utf-8")


def test_broken_weights_are_never_saved(reversal: Reversal, tmp_path: Path) -> None:
    """The loss of the first step is finite, but the weights after its update are not."""
    config = diverging(reversal(checkpoint_every=1))
    message = r"the loss is (nan|inf) at step 1 on the dev set\. There is no checkpoint yet: start"
    with pytest.raises(TrainingError, match=message):
        trainer.train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "best.weights.h5").exists()
    assert not list((tmp_path / "run").glob("checkpoints/*"))
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_loss_that_is_not_finite_keeps_its_batch(reversal: Reversal, tmp_path: Path) -> None:
    config = diverging(reversal(checkpoint_every=4))
    place = r"at step 2, batch 2 of epoch 1\. There is no .*\. The pairs of .* in .*bad_batch\.json"
    with pytest.raises(TrainingError, match=place):
        trainer.train(config, tmp_path / "run")
    written = json.loads((tmp_path / "run" / "bad_batch.json").read_text())
    assert written["step"] == 2
    sources = Path(f"{config.data.train}.a").read_text().splitlines()
    assert len(written["pairs"]) > 10
    for pair in written["pairs"]:
        assert pair["source"] == sources[pair["position"]]
        assert pair["target"] == pair["source"][::-1]
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_out_of_memory_names_the_option_to_reduce(
    trained_copy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*arguments: object, **options: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    run = dataclasses.replace(trained_copy, config=with_train(trained_copy.config, max_steps=7))
    training = trainer.Trainer(run, run.prepared(print), RunLog(run.path))
    monkeypatch.setattr(training.parts.model, "fit", exhausted)
    message = r"out of memory: reduce train\.micro_batch_tokens \(now 200 target tokens"
    with pytest.raises(TrainingError, match=message):
        training.train()


@pytest.mark.slow
def test_xla_gives_the_losses_of_plain_execution(reversal: Reversal, tmp_path: Path) -> None:
    # XLA has other batches, of fixed shapes; the dev set is the same. Without dropout, whose
    # masks depend on the shapes.
    config = reversal(jit=True, max_steps=1, checkpoint_every=1)
    model = dataclasses.replace(config.model, dropout=0.0, attention_dropout=0.0)
    config = dataclasses.replace(config, model=model)
    compiled = trainer.train(config, tmp_path / "compiled")
    plain = dataclasses.replace(compiled, config=with_train(compiled.config, jit=False))
    parts = trainer.Trainer(plain, compiled.prepared(print), RunLog(tmp_path)).parts
    parts.model.set_weights(compiled.model().get_weights())
    scores, _ = parts.dev_set.evaluate()
    assert records(compiled)[0]["dev_loss"] == pytest.approx(scores["dev_loss"], rel=1e-5)


@pytest.mark.slow
def test_it_learns_to_reverse(reversal: Reversal, tmp_path: Path) -> None:
    config = reversal(
        max_steps=500, batch_tokens=1000, warmup_steps=100, checkpoint_every=250, dev_sentences=20
    )
    model = dataclasses.replace(
        config.model, d_model=64, heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0
    )
    data = dataclasses.replace(config.data, vocabulary_size=300)
    run = trainer.train(dataclasses.replace(config, model=model, data=data), tmp_path / "run")
    assert max(record["dev_bleu"] for record in records(run)) > 60
    translator = Translator.from_run(run.path)
    lines = ["a b c", "", "h g f e", "a"]
    together = [item.text for item in translator.translate(lines)]
    assert together == [translator.translate([line])[0].text for line in lines]
    assert together[1] == ""
