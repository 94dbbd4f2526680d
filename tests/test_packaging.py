"""Dependencies, extras and the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from keras_transformer.optional_dependencies import DISTRIBUTION, EXTRAS
from tests.support.wheel import build_wheel, call, copy_sources, install

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]

# Colab's packages of 19 August 2026, on Python 3.13.
COLAB = {
    "tensorflow": "2.20.0",
    "keras": "3.13.2",
    "tensorflow-text": "2.20.1",
    "keras-nlp": "0.26.0",
    "numpy": "2.1.3",
    "matplotlib": "3.10.0",
    "sentencepiece": "0.2.2",
    "tensorflow-datasets": "4.9.10",
    "tensorboard": "2.20.0",
}
SUPPORTED = [
    {"tensorflow": "2.20.0", "tensorflow-text": "2.20.0", "keras": "3.13.2", "keras-nlp": "0.26.0"},
    {"tensorflow": "2.21.0", "tensorflow-text": "2.21.1", "keras": "3.15.1", "keras-nlp": "0.32.0"},
]


def requirements(lines: list[str]) -> dict[str, Requirement]:
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in found}


def in_file(name: str) -> dict[str, Requirement]:
    text = (ROOT / name).read_text("utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return requirements([line for line in lines if line and not line.startswith("-r")])


BASE = requirements(PROJECT["dependencies"])
ALL_EXTRAS = {name: one for extra in EXTRAS for name, one in requirements(OPTIONAL[extra]).items()}


def test_base_and_extras_are_the_packages_of_requirements_txt() -> None:
    wanted = in_file("requirements.txt")
    extras = {
        name: one
        for extra in ("serve", "tfds", "plots")
        for name, one in requirements(OPTIONAL[extra]).items()
    }
    assert not BASE.keys() & ALL_EXTRAS.keys()
    assert wanted.keys() == BASE.keys() | extras.keys()
    for name, one in wanted.items():
        supported = (BASE | extras)[name]
        assert one.extras >= supported.extras
        lowest = next(each.version for each in one.specifier if each.operator == ">=")
        assert lowest in supported.specifier, f"{name} {lowest}"
    development = in_file("requirements-dev.txt")
    for name in ("tensorboard", "ctranslate2"):
        assert str(development[name].specifier) == str(ALL_EXTRAS[name].specifier)


def test_extras_bring_the_modules_that_messages_name() -> None:
    assert set(OPTIONAL) == {*EXTRAS, "gpu", "all"}
    for extra, modules in EXTRAS.items():
        packages = requirements(OPTIONAL[extra])
        for module in modules:
            name = canonicalize_name(module)
            assert name in packages or f"{name}-api" in packages, (extra, module)
    assert OPTIONAL["all"] == [f"{DISTRIBUTION}[{','.join(EXTRAS)}]"]
    assert PROJECT["name"] == DISTRIBUTION


@pytest.mark.parametrize("installed", [COLAB, *SUPPORTED])
def test_supported_environments_need_no_other_version(installed: dict[str, str]) -> None:
    for name, version in installed.items():
        assert version in (BASE | ALL_EXTRAS)[name].specifier, name


def test_versions_outside_the_tested_ones_are_excluded() -> None:
    for name, version in (
        ("tensorflow", "2.22.0"),
        ("tensorflow-text", "2.21.0"),
        ("keras", "3.16.0"),
        ("keras", "3.13.1"),
    ):
        assert version not in BASE[name].specifier


def test_one_version_and_one_address() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    (address,) = PROJECT["urls"].values()
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    if listed:
        texts = [ROOT / name for name in listed.split("\0") if re.search(r"\.\w{2,4}$", name)]
        found = [path for path in texts if path.is_file() and address.encode() in path.read_bytes()]
        assert found == [ROOT / "pyproject.toml"]


def test_hooks_and_workflow_run_the_checks_of_make() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for entry, line in zip(
        entries,
        ("ruff check .", "ruff format --check .", "mypy keras_transformer tools"),
        strict=True,
    ):
        tool, *words = line.split()
        assert entry.startswith(f".venv/bin/{tool}")
        assert all(word in entry for word in words if word != ".")
        assert f"$(BIN)/{line}" in makefile
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    job = workflow["jobs"]["test"]
    assert job["steps"][-1] == {"run": "bash .ci/run"}
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert job["strategy"]["matrix"]["tensorflow"] == ["2.20", "2.21"]


# The wheel

SMALL = (
    "--model.encoder_layers=1 --model.decoder_layers=1 --model.d_model=16 --model.heads=2 "
    "--model.d_ff=32 --data.vocabulary_size=500 --train.batch_tokens=500 --train.max_steps=2 "
    "--train.dev_sentences=0"
)


@pytest.mark.slow
def test_a_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    """Built without a network, installed beside the base packages of this environment, used."""
    wheel = build_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "keras_transformer"
    shipped = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    missing = {str(path.relative_to(ROOT)) for path in shipped} - names
    assert missing == set()
    assert not [name for name in names if not name.startswith(("keras_transformer/", "keras_t"))]

    scripts = install(wheel, tmp_path / "environment with a space")
    work = tmp_path / "work"
    work.mkdir()
    call(scripts / "keras-translate", "--help", cwd=work)
    done = call(scripts / "keras-translate", "train", "--run", "run", *SMALL.split(), cwd=work)
    assert 'curves.png: not drawn: run pip install "keras-translate[plots]"' in done.stderr
    (work / "in.txt").write_text("I love you.\n\n", encoding="utf-8")
    python = scripts / "python"
    done = call(python, "-m", "keras_transformer.translate", "--run", "run", "in.txt", cwd=work)
    assert done.stdout.count("\n") == 2
    (installed,) = (scripts.parent / "lib").glob("*/site-packages/keras_transformer")
    before = files_of(installed)
    translate = [python, "-m", "keras_transformer.translate", "--run", "builtin:phrasebook"]
    assert call(*translate, "in.txt", cwd=work).stdout == "我爱你。\n\n"
    assert files_of(installed) == before  # it may be a read-only folder
    (work / "models" / "1").mkdir(parents=True)
    (work / "models" / "1" / "saved_model.pb").touch()
    for words in (["export", "--run", "run", "--to", "new"], ["serve", "models"]):
        done = call(scripts / "keras-translate", *words, cwd=work, status=2)
        assert 'pip install "keras-translate[serve]"' in done.stderr
    where = call(
        python,
        "-c",
        "import importlib.resources as r, keras_transformer as kt; print(kt.__file__); "
        "print(sorted(p.name for p in (r.files(kt) / 'server' / 'page').iterdir()))",
        cwd=work,
    ).stdout
    assert str(tmp_path) in where.splitlines()[0]
    assert "index.html" in where.splitlines()[1]


def files_of(folder: Path) -> dict[Path, int]:
    """Return the files of a folder with their modification times, without Python's cache."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path: path.stat().st_mtime_ns for path in paths}


@pytest.mark.slow
def test_a_source_distribution_has_all_files_of_the_package(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path)
    code = "from setuptools import build_meta; build_meta.build_sdist('..')"
    call(sys.executable, "-c", code, cwd=sources)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {str(path.relative_to(ROOT)) for path in files_of(ROOT / "keras_transformer")} <= names
