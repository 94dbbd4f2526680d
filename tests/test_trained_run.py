"""Run folders of trained models without a corpus, as conversion writes them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer import evaluate, score, train, translate
from keras_transformer.config import Config, ConfigError, DataConfig, ModelConfig, SearchConfig
from keras_transformer.data.prepare import prepare
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.word_tokenizer import Words
from keras_transformer.errors import UserError
from keras_transformer.formats import read_versions
from keras_transformer.model import transformer
from keras_transformer.named_weights import NamedWeightsError, named_weights
from keras_transformer.run import VERSIONS, Run, RunError
from keras_transformer.training import trainer
from tests.data.test_foreign_sentencepiece import SOURCE, TARGET, VOCABULARY
from tests.training.helpers import assert_same_checkpoint, records, remove_checkpoints, with_train

LETTERS = "abcdefgh"
JOINT = Tokenizer(Words(LETTERS), Words(LETTERS))


def model_config(tokenizer: Tokenizer, **fields: Any) -> ModelConfig:
    small = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "heads": 2, "d_ff": 16}
    sizes = {
        "source_vocabulary_size": tokenizer.source.size,
        "target_vocabulary_size": tokenizer.target.size,
    }
    return ModelConfig(**small | sizes | fields)  # type: ignore[arg-type]


def weights_of(config: ModelConfig) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    variables = named_weights(transformer.build(config)).items()
    return {
        path: (random.normal(0.0, 0.5, variable.shape) + path.endswith("gamma")).astype(np.float32)
        for path, variable in variables
    }


def create(path: Path, tokenizer: Tokenizer = JOINT, **fields: Any) -> Run:
    model = model_config(tokenizer, **fields)
    config = Config(
        model=dataclasses.replace(model, source_vocabulary_size=0, target_vocabulary_size=0),
        data=DataConfig(source="src", target="trg", algorithm="words", joint=False, max_tokens=20),
        search=SearchConfig(beam=2, max_extra=3),
    )
    return Run.create_trained(
        path, config, tokenizer, weights_of(model), "other: model.npz", ["a note"]
    )


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return create(tmp_path_factory.mktemp("converted") / "run")


def test_the_folder_has_what_later_commands_read(converted: Run) -> None:
    assert {path.name for path in converted.path.iterdir()} == {
        *("config.yaml", "versions.json", "tokenizer", "best.weights.h5", "log.txt")
    }
    opened = Run.open(converted.path)
    assert opened.config == converted.config
    assert opened.config.model.source_vocabulary_size == 12
    assert (opened.config.data.train, opened.config.data.dev) == ("", "")
    assert opened.dev_pairs() == []
    assert (converted.path / "log.txt").read_text() == "a note\n"
    versions = read_versions(converted.path / VERSIONS)
    assert versions["converted from"] == "other: model.npz"
    assert opened.origin() == ""
    assert opened.tokenizer().fingerprint == JOINT.fingerprint
    found, wanted = named_weights(opened.model()), weights_of(converted.config.model)
    for path, variable in found.items():
        np.testing.assert_array_equal(variable.numpy(), wanted[path])


@pytest.mark.slow
def test_weights_in_float16(tmp_path: Path, converted: Run) -> None:
    config, weights = converted.config, weights_of(converted.config.model)
    run = Run.create_trained(tmp_path / "run", config, JOINT, weights, "other", dtype="float16")
    assert run.best_weights.stat().st_size < converted.best_weights.stat().st_size
    for path, variable in named_weights(run.model()).items():
        np.testing.assert_array_equal(variable.numpy(), weights[path].astype(np.float16))
    weights["embedding/matrix"][3, 0] = 1e6
    with pytest.raises(UserError, match="too large for float16"):
        Run.create_trained(tmp_path / "new", config, JOINT, weights, "other", dtype="float16")
    assert not (tmp_path / "new").exists()


def test_what_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path, converted: Run) -> None:
    config, weights = converted.config, weights_of(converted.config.model)

    def attempt(tokenizer: Tokenizer, weights: dict[str, np.ndarray]) -> None:
        Run.create_trained(tmp_path / "run", config, tokenizer, weights, "other")

    with pytest.raises(NamedWeightsError, match="1 missing: embedding/matrix"):
        attempt(JOINT, {path: weights[path] for path in weights if path != "embedding/matrix"})
    with pytest.raises(RunError, match="model.source_vocabulary_size: expected 0 or the token"):
        attempt(Tokenizer(Words("ab"), Words("ab")), weights)
    with pytest.raises(RunError, match="an id means different tokens, got 'tied'"):
        attempt(Tokenizer(Words(LETTERS), Words(LETTERS[::-1])), weights)
    assert not (tmp_path / "run").exists()
    with pytest.raises(RunError, match="exists already"):
        Run.create_trained(converted.path, config, JOINT, weights, "other")


def test_there_is_no_training_to_resume(converted: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"got one that was converted .* --init_from \S+run"):
        trainer.train(converted.config, converted.path, resume=True)
    for config in (converted.config, Config(data=DataConfig(train=""))):
        with pytest.raises(ConfigError, match="data.train: expected training pairs .*, got ''"):
            trainer.train(config, tmp_path / "new")
    with pytest.raises(ConfigError, match="data.train: expected training pairs"):
        prepare(converted.config.data, tmp_path / "new", print, JOINT)
    assert not (tmp_path / "new").exists()


def test_a_learned_vocabulary_is_joint_for_tied_embeddings(tmp_path: Path) -> None:
    config = Config(data=DataConfig(joint=False))
    with pytest.raises(ConfigError, match="data.joint: expected true for model.embeddings tied"):
        Run.create(tmp_path / "new", config, print)


def test_fine_tuning_needs_a_corpus(
    converted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--init_from", str(converted.path), "--run", str(tmp_path / "new")]
    assert train.main(words) == 2
    assert "data.train: expected training pairs" in capsys.readouterr().err


@pytest.mark.slow
def test_commands_on_a_converted_run(
    converted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.txt"
    source.write_text("a b c\n\nunseen words a\n")
    run = ["--run", str(converted.path)]
    assert translate.main([*run, str(source)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    assert set(lines[0].split()) <= set(LETTERS)
    assert evaluate.main([*run, "--source", str(source), "--reference", str(source), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 2
    assert score.main([*run, "--source", str(source), "--target", str(source)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def two_models() -> Tokenizer:
    from keras_transformer.data.foreign_sentencepiece import SpecialIds, rewrite_models

    special = SpecialIds(pad=10, unknown=1, end=0)
    return Tokenizer(*rewrite_models([SOURCE, TARGET], VOCABULARY, special, [">>deu<<"]).sides)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sentences of letters, and the same letters backwards."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(2)
    for name, count in (("train", 200), ("dev", 10)):
        rows = [random.choice(list("abch"), random.integers(2, 6)).tolist() for _ in range(count)]
        (folder / f"{name}.src").write_text("".join(f"{' '.join(row)}\n" for row in rows))
        (folder / f"{name}.trg").write_text("".join(f"{' '.join(row[::-1])}\n" for row in rows))
    return str(folder)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: JOINT, two_models], ids=["words", "two models"])
def test_fine_tuning_lowers_dev_loss_and_resumes_bitwise(
    make: Any, corpus: str, tmp_path: Path
) -> None:
    base = create(tmp_path / "base", make())
    assert base.tokenizer().same_ids
    config = dataclasses.replace(
        base.config,
        data=dataclasses.replace(
            base.config.data, train=f"{corpus}/train", dev=f"{corpus}/dev", max_tokens=30
        ),
    )
    config = with_train(
        config,
        max_steps=20,
        checkpoint_every=10,
        batch_tokens=200,
        warmup_steps=10,
        learning_rate_factor=0.3,
        dev_sentences=0,
        average=3,
    )
    whole = trainer.train(config, tmp_path / "whole", init_from=base.path)
    log = (whole.path / "log.txt").read_text()
    assert f"initial weights: those of {base.path}, dev loss " in log
    assert whole.tokenizer().fingerprint == base.tokenizer().fingerprint
    assert whole.origin() == str(base.path)
    losses = [record["dev_loss"] for record in records(whole)]
    before = float(log.partition("dev loss ")[2].partition(",")[0])
    assert losses[-1] < before

    copy = Run.open(shutil.copytree(whole.path, tmp_path / "copy"))
    remove_checkpoints(copy, 20)
    shutil.rmtree(base.path)
    trainer.train(copy.config, copy.path, resume=True)
    assert_same_checkpoint(copy.path, whole.path)
