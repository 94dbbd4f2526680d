"""Exports of runs with other tokenizers than a learned SentencePiece model, without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.config import Config, ModelConfig, SearchConfig
from keras_transformer.data.foreign_sentencepiece import SpecialIds, rewrite_models
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.word_tokenizer import Words
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.named_weights import named_weights
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportSettings
from tests.data.test_foreign_sentencepiece import SOURCE, TARGET, VOCABULARY
from tests.serving.saved_model.test_cpp_runtime import RELEASED, ask, read, sent

ODDITIES = [
    "",
    " \t\u3000",
    "\x00",
    "\u2581 <s> <unk>",
    b"\xff the \x80".decode(errors="surrogateescape"),
]


def words() -> Tokenizer:
    """Words of two languages; a control character, a mark of SentencePiece."""
    source = Words(["the", "old", "tr@@", "ain", "\x00", "\u2581"])
    return Tokenizer(source, Words(["der", "alte", "Z@@", "ug", "\u2581a"], continuation="@@"))


def two_models() -> Tokenizer:
    """Two SentencePiece models with common ids."""
    special = SpecialIds(pad=10, unknown=1, end=0)
    return Tokenizer(*rewrite_models([SOURCE, TARGET], VOCABULARY, special, [">>deu<<"]).sides)


CASES = {
    "words": (words, "untied", ["the old tr@@ ain", "old\u2003old new", *ODDITIES]),
    "two models": (two_models, "tied", [">>deu<< ab ba", "hä cab", "ab" * 80, *ODDITIES]),
}


def trained_run(folder: Path, tokenizer: Tokenizer, embeddings: str) -> Run:
    """A run with random weights that prefer some tokens clearly."""
    sizes = {
        "source_vocabulary_size": tokenizer.source.size,
        "target_vocabulary_size": tokenizer.target.size,
    }
    layers: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "heads": 2}
    model = ModelConfig(**layers, d_ff=32, embeddings=embeddings, **sizes)  # type: ignore[arg-type]
    random = np.random.default_rng(3)
    weights = {
        path: random.normal(0.0, 1.0, variable.shape) + path.endswith("gamma")
        for path, variable in named_weights(transformer.build(model)).items()
    }
    config = Config(model=model, search=SearchConfig(beam=3, n_best=3, max_extra=4))
    return Run.create_trained(folder, config, tokenizer, weights, "a test")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_replies_equal_those_of_python(tmp_path: Path, case: str) -> None:
    make, embeddings, lines = CASES[case]
    run = trained_run(tmp_path / "run", make(), embeddings)
    log: list[str] = []
    folder = export(run, run.config.search, tmp_path / "model", ExportSettings(), log.append)
    assert log[-1] == "the run has no dev set: BLEU is not measured"
    translator = Translator.from_run(run.path)
    expected = translator.translate([read(line) for line in lines], attention=True)
    scores = translator.score([read(line) for line in lines], [read(line) for line in lines[::-1]])
    texts = [sent(line) for line in lines]
    requests = [
        {"signature": "nbest", "inputs": {"text": texts}},
        {"signature": "align", "inputs": {"text": texts}},
        {"signature": "score", "inputs": {"source": texts, "target": texts[::-1]}},
    ]
    libraries = RELEASED if (RELEASED / "tensorflow").is_dir() else None
    nbest, align, score = (reply["outputs"] for reply in ask(folder, requests, libraries))
    for line, texts_of_line, wanted in zip(lines, nbest["translations"], expected, strict=True):
        found = [text for text in texts_of_line if text]
        others = [item.text for item in wanted.alternatives]
        assert found == [text for text in (wanted.text, *others) if text], line
    assert align["translation"] == [item.text for item in expected]
    for pieces, wanted in zip(align["source_pieces"], expected, strict=True):
        if wanted.attention is not None:
            assert [piece for piece in pieces if piece] == list(wanted.attention.source)
    wanted_scores = [item.log_probability for item in scores]
    np.testing.assert_allclose(score["log_probability"], wanted_scores, rtol=1e-4)
