"""The built-in model: its files, its card, and the commands that use it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import pytest

from keras_transformer import builtin_models, evaluate, export, score, translate
from keras_transformer.builtin_models import BuiltinModelError
from keras_transformer.config import Config
from keras_transformer.data.phrasebook import pairs
from keras_transformer.data.prepare import dev_spec
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.weights_file import parameters_and_fingerprint

NAME = "builtin:phrasebook"
FOLDER = Path(builtin_models.__file__).parent / "phrasebook"


def card() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((FOLDER / builtin_models.CARD).read_text("utf-8"))
    return values


def test_a_name_stands_for_a_run_folder(tmp_path: Path) -> None:
    assert builtin_models.names() == [NAME]
    run = Run.open(NAME)
    assert run == Run.open(Path(NAME)) == Run.open(FOLDER)
    assert run.path == FOLDER
    assert builtin_models.run_folder(tmp_path) == tmp_path
    assert builtin_models.run_folder("runs/builtin:phrasebook") == Path("runs/builtin:phrasebook")
    for unknown in ("builtin:", "builtin:phrases", f"{NAME}:test", f"{NAME}/data"):
        with pytest.raises(BuiltinModelError, match=f"run folder or {NAME}, got '{unknown}'"):
            Run.open(unknown)


def test_the_card_describes_the_files() -> None:
    run, described = Run.open(NAME), card()
    parameters, fingerprint = parameters_and_fingerprint(run.best_weights)
    assert described["parameters"] == parameters
    assert described["tokenizer"] == fingerprint == run.tokenizer().fingerprint
    assert described["name"] == described["corpus"] == run.config.data.train == NAME
    assert described["languages"] == {"source": "en", "target": "zh"}
    assert described["preset"] == "demo"
    assert described["test"]["sentences"] == len({source for source, _ in pairs("test")})
    types = set()
    with h5py.File(run.best_weights) as file:
        file["layers"].visititems(lambda name, item: types.add(getattr(item, "dtype", None)))
    assert {str(kind) for kind in types - {None}} == {described["dtype"]} == {"float16"}


def test_the_folder_is_small_and_has_the_dev_set_for_exports() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 3_000_000
    run = Run.open(NAME)
    assert dev_spec(run.config.data) == NAME
    assert [(pair.source, pair.target) for pair in run.dev_pairs()] == pairs("dev")


def test_nothing_is_trained_in_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(FOLDER)
    for path in (Path(NAME), Path("builtin:new"), FOLDER, tmp_path / "link"):
        with pytest.raises(BuiltinModelError, match="cannot be changed; choose another --run"):
            Run.create(path, Config(), print)
    for opened in (Run.open(NAME), Run.open(tmp_path / "link")):
        with pytest.raises(BuiltinModelError, match="cannot be changed"), opened.locked():
            pass


@pytest.mark.slow
def test_it_translates() -> None:
    translator = Translator.from_run(NAME)
    assert [item.text for item in translator.translate(["I love you.", ""])] == ["我爱你。", ""]


@pytest.mark.slow
def test_its_score_is_that_of_the_card() -> None:
    """In a new process, with the threads of a user's."""
    words = ["--run", NAME, "--data", f"{NAME}:test", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "keras_transformer.evaluate", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    found, expected = json.loads(done.stdout), card()["test"]
    assert found["bleu"] == pytest.approx(expected["bleu"], abs=0.1)
    assert found["chrf"] == pytest.approx(expected["chrf"], abs=0.1)
    assert found["bleu_signature"] == expected["bleu_signature"]
    # float16 costs nothing.
    assert expected["bleu"] == pytest.approx(expected["float32_bleu"], abs=0.05)


@pytest.mark.slow
def test_each_command_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in FOLDER.rglob("*")}
    Path("in.en").write_text("I love you.\n", encoding="utf-8")
    Path("in.zh").write_text("我爱你。\n", encoding="utf-8")
    assert translate.main(["--run", NAME, "in.en"]) == 0
    assert capsys.readouterr().out == "我爱你。\n"
    texts = ["--source", "in.en", "--reference", "in.zh", "--json"]
    assert evaluate.main(["--run", NAME, *texts]) == 0
    assert json.loads(capsys.readouterr().out)["bleu"] == pytest.approx(100)
    assert score.main(["--run", NAME, "--source", "in.en", "--target", "in.zh"]) == 0
    assert float(capsys.readouterr().out.split("\t")[0]) > -1.0
    assert export.main(["--run", NAME, "--to", "models/phrasebook", "--dev_sentences", "20"]) == 0
    exported = json.loads(Path("models/phrasebook/1/export.json").read_text("utf-8"))
    assert exported["dev"]["bleu"] > 80
    for command in (translate, score, export):
        assert command.main(["--run", "builtin:none", "--to"][: 2 + (command is export)]) == 2
    assert {path: path.stat().st_mtime_ns for path in FOLDER.rglob("*")} == before
    shutil.rmtree("models")
