"""Versions for CTranslate2: complete, usable by their card, smaller in bfloat16 and int8."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.search.constraints import FORBIDDEN
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.export import export
from keras_transformer.serving.settings import ExportError, ExportSettings

ctranslate2 = pytest.importorskip("ctranslate2", reason="the optional package is not installed")

QUICK = ExportSettings(format="ctranslate2", dev_sentences=0)


def quietly(line: str) -> None:
    """Ignore the progress."""


@pytest.fixture(scope="module")
def log() -> list[str]:
    """The progress of ``version``."""
    return []


@pytest.fixture(scope="module")
def version(small_run, log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "small"
    settings = ExportSettings(format="ctranslate2")
    return export(small_run, small_run.config.search, folder, settings, log.append)


def test_files_of_a_version(version) -> None:
    assert version.name == "1"
    assert {path.name for path in version.iterdir()} == {
        "model.bin",
        "config.json",
        "source_vocabulary.json",
        "target_vocabulary.json",
        "source.model",
        "target.model",
        "export.json",
    }
    assert [path.name for path in version.parent.iterdir()] == ["1"]
    assert version.stat().st_mode & 0o777 == 0o755


def test_the_card_translates_as_the_run_does(version, small_run, log) -> None:
    card = json.loads((version / "export.json").read_text())
    assert (card["name"], card["format"], card["dtype"]) == ("small", "ctranslate2", "float32")
    assert card["versions"]["ctranslate2"] == ctranslate2.__version__
    assert card["dev"]["sentences"] == 4
    options = card["translate_batch"]
    assert (options["beam_size"], options["length_penalty"]) == (3, 0.6)
    (warning,) = card["warnings"]
    assert "((5 + n) / 6)^0.6, CTranslate2 by n^0.6" in warning
    assert f"warning: {warning}" in log
    assert (options["max_input_length"], options["max_decoding_length"]) == (60, 63)
    tokenizer = Tokenizer.load(version)
    assert tokenizer.fingerprint == card["tokenizer"]["fingerprint"]
    sources = tokenizer.source.encode([pair.source for pair in small_run.dev_pairs()] + [""])
    translator = ctranslate2.Translator(str(version))
    found = translator.translate_batch([tokenizer.source.pieces(ids) for ids in sources], **options)
    assert all(result.hypotheses[0] for result in found[:-1])
    assert found[-1].hypotheses[0] == []


@pytest.mark.parametrize(
    ("fields", "warned"),
    [
        ({}, True),
        ({"alpha": 1.5, "beam": 2}, True),
        ({"alpha": 0.0}, False),  # no penalty
        ({"beam": 1}, False),  # nothing to rank
        ({"length_penalty": "power"}, False),
        ({"length_penalty": "power", "alpha": 2.0}, False),
    ],
)
def test_the_card_warns_of_another_length_penalty(small_run, fields, warned) -> None:
    from keras_transformer.serving.ctranslate2.writer import CTranslate2Writer

    search = dataclasses.replace(small_run.config.search, **fields)
    card = CTranslate2Writer(small_run, search, 60, "float32").interface()
    assert len(card["warnings"]) == warned
    assert card["translate_batch"]["length_penalty"] == search.alpha


@pytest.mark.parametrize(
    ("fields", "longest", "warned"),
    [
        ({"max_factor": 2.0}, 2 * 59 + 4, True),
        ({"max_factor": 2.0, "max_length": 70}, 70, True),
        ({"max_factor": 0.0, "max_extra": 80}, 80, False),  # one limit for all sources
        ({"max_length": 3}, 3, False),
    ],
)
def test_the_card_warns_of_limits_by_a_factor(small_run, fields, longest, warned) -> None:
    from keras_transformer.serving.ctranslate2.writer import CTranslate2Writer

    search = dataclasses.replace(small_run.config.search, beam=1, **fields)
    card = CTranslate2Writer(small_run, search, 60, "float32").interface()
    assert card["translate_batch"]["max_decoding_length"] == longest
    assert [f"CTranslate2 {longest} for every source" in line for line in card["warnings"]] == (
        [True] * warned
    )


def test_tokens_of_the_card(small_run) -> None:
    from keras_transformer.serving.ctranslate2.writer import CTranslate2Writer

    (piece,) = small_run.tokenizer().target.pieces([300])
    search = dataclasses.replace(small_run.config.search, allow_unknown=True, suppress=(piece,))
    options = CTranslate2Writer(small_run, search, 60, "float32").interface()["translate_batch"]
    assert options["disable_unk"] is False
    assert options["suppress_sequences"] == [["<pad>"], ["<s>"], [piece]]


def test_forbidden_tokens_are_not_written(small_run, tmp_path) -> None:
    """A model that prefers them does not write them with the options of the card."""
    shutil.copytree(small_run.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    model = small_run.model()
    table = transformer.projection(model).matrix
    rows = table.numpy()
    rows[list(FORBIDDEN)] = 5 * rows[5 + 256 : 5 + 256 + len(FORBIDDEN)]
    table.assign(rows)
    run.save_best(model)
    version = export(run, run.config.search, tmp_path / "m", QUICK, quietly)
    tokenizer = Tokenizer.load(version)
    forbidden = set(tokenizer.target.pieces(FORBIDDEN))
    sources = [
        tokenizer.source.pieces(ids)
        for ids in tokenizer.source.encode([pair.source for pair in small_run.dev_pairs()])
    ]
    options = json.loads((version / "export.json").read_text())["translate_batch"]
    translator = ctranslate2.Translator(str(version))

    def said(**chosen) -> set[str]:
        found = translator.translate_batch(sources, **chosen)
        return {piece for result in found for piece in result.hypotheses[0]}

    assert said(beam_size=1) & forbidden
    assert not said(**options) & forbidden


@pytest.mark.parametrize(("dtype", "share"), [("bfloat16", 0.52), ("int8", 0.65)])
def test_smaller_weights(version, small_run, tmp_path, dtype, share) -> None:
    """The table of positions, large beside so small a model, stays in float32 with int8."""
    settings = dataclasses.replace(QUICK, dtype=dtype, dev_sentences=2, max_bleu_loss=100.0)
    search = small_run.config.search
    smaller = export(small_run, search, tmp_path / "m", settings, quietly)
    sizes = [(folder / "model.bin").stat().st_size for folder in (smaller, version)]
    assert sizes[0] < share * sizes[1]
    assert {path.name for path in smaller.iterdir()} == {path.name for path in version.iterdir()}
    dev = json.loads((smaller / "export.json").read_text())["dev"]
    # Random weights: below BLEU 1 the agreement is measured too.
    assert set(dev) - {"float32_agreement"} == {"bleu", "signature", "sentences", "float32_bleu"}
    translator = ctranslate2.Translator(str(smaller))
    assert translator.translate_batch([["▁A"]], max_decoding_length=5)[0].hypotheses[0]


def test_unsupported_models_and_searches_are_refused_first(small_run, tmp_path) -> None:
    config = small_run.config
    alibi = dataclasses.replace(config.model, positions="alibi")
    run = Run(tmp_path / "no weights", dataclasses.replace(config, model=alibi))
    with pytest.raises(ExportError, match="the run has alibi"):
        export(run, config.search, tmp_path / "m", QUICK, quietly)
    samples = dataclasses.replace(config.search, sample=True)
    with pytest.raises(ExportError, match="search.sample: expected false"):
        export(small_run, samples, tmp_path / "m", QUICK, quietly)
    assert not (tmp_path / "m").exists()
