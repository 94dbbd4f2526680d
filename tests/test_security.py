"""Files of strangers, and dependencies: docs/security.md."""

from __future__ import annotations

import ast
import gzip
import re
import tomllib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from keras_transformer import train
from keras_transformer.data.lines import read_lines
from keras_transformer.run import Run, RunError

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "keras_transformer"
CODE = "data: !!python/object/apply:os.mkdir [{}]\n"

# Calls that run text as code, unpickle, or unpack archives, by the last parts of their name.
RISKY = {
    "eval", "exec", "compile", "pickle.load", "pickle.loads", "yaml.load", "yaml.unsafe_load",
    "yaml.full_load", "os.system", "extractall", "unpack_archive", "marshal.loads", "shelve.open",
    "joblib.load", "torch.load", "keras.models.load_model", "keras.saving.load_model",
}  # fmt: skip
# The processes of the tokenizer exchange pickles over their own pipes.
OWN_PIPES = {("data/encoding.py", "pickle.load")}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_no_call_runs_or_unpacks_data() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for name, call in calls(path):
            parts = name.split(".")
            risky = name in RISKY or parts[-1] in RISKY & {"extractall", "unpack_archive"}
            given = {word.arg: ast.unparse(word.value) for word in call.keywords}
            if risky or given.get("shell") == "True" or given.get("allow_pickle") == "True":
                found.add((str(path.relative_to(PACKAGE)), name))
    assert found == OWN_PIPES


def test_a_run_with_code_in_its_yaml_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "made"
    (tmp_path / "config.yaml").write_text(CODE.format(mark))
    with pytest.raises(RunError, match="config.yaml: "):
        Run.open(tmp_path)
    assert not mark.exists()


def test_a_recipe_with_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "made"
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(CODE.format(mark))
    assert train.main(["--config", str(recipe), "--run", str(tmp_path / "run")]) == 2
    assert "recipe.yaml" in capsys.readouterr().err
    assert not mark.exists()


def test_a_compressed_corpus_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "corpus.gz"
    lines = 100_000
    with gzip.open(path, "wt") as file:
        file.write(("a" * 99 + "\n") * lines)  # 10 MB
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        reader = read_lines(path)
        assert len([next(reader) for _ in range(1000)]) == 1000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_every_requirement_has_an_upper_limit() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        lines += [line for line in extra if not line.startswith(project["name"])]
    for name in ("requirements.txt", "export/requirements.txt"):
        text = (ROOT / name).read_text("utf-8")
        lines += [line.partition("#")[0] for line in text.splitlines() if re.match(r"\w", line)]
    assert len(lines) > 20
    for line in lines:
        assert any(each.operator in ("<", "==", "~=") for each in Requirement(line).specifier), line
