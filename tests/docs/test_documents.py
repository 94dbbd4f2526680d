"""Documents against the code: options, links, files, generated pages, words."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import jsonargparse
import pytest
import yaml

from keras_transformer.cli.dispatch import module_of
from tests.docs.documents import (
    ALL,
    ROOT,
    RUN,
    TESTED_ELSEWHERE,
    Block,
    anchors,
    blocks,
    commands,
    links,
    prose,
)
from tools import architecture_picture, config_reference

REASONS = {
    "needs Docker",
    "needs a GPU",
    "needs several machines",
    "needs the network",
    "takes an hour",
    "takes minutes",
}
LANGUAGES = {"sh", "python", "text", "yaml", "json", "proto"}
ENTRY_POINTS = (
    *("train", "translate", "evaluate", "score", "convert", "export", "serve", "lab"),
    "visualize",
)
# Other programs' options that the documents name.
FOREIGN = {"--help", "--logdir", "--beam", "--batch_tokens", "--data", "--venvs", "--waiting"}
# Names that only look like fields.
NO_FIELDS = {"model.fit", "model.bin", "model.pt", "model.safetensors", "train.py", "train.tsv"}
# Folders of which the documents name files.
FOLDERS = "benchmarks|configs|docs|export|keras_transformer|tests|tools"
GENERATED = ("export/models", "export/ctranslate2", "export/marian-hf", "docs/soak.json")
# Words that are no terms of the field, or no modern English.
AVOIDED = r"\b(recompute|anew|nobody|thereof|be it|turned round|in earnest|what is more|made of)\b"

DOCUMENTS = pytest.mark.parametrize("document", ALL, ids=lambda path: str(path.relative_to(ROOT)))


class Parsed(BaseException):
    """The command line was accepted."""


@pytest.fixture
def parsing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop every entry point once its command line is parsed."""
    parse = jsonargparse.ArgumentParser.parse_args

    def stop(*arguments: Any, **options: Any) -> None:
        parse(*arguments, **options)
        raise Parsed

    monkeypatch.setattr(jsonargparse.ArgumentParser, "parse_args", stop)


def entry_point_commands(document: Path) -> list[tuple[Block, str, list[str]]]:
    """Return block, entry point and options of each command of the package in a document."""
    shell = (block for block in blocks(document) if block.language == "sh")
    return [(block, *command) for block in shell for command in commands(block)]


def options_of(entry_point: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    module = importlib.import_module(module_of(entry_point))
    with pytest.raises(SystemExit):
        module.main(["--help"])
    return set(re.findall(r"--[a-z][\w.]*", capsys.readouterr().out))


@pytest.mark.parametrize("document", RUN, ids=lambda path: path.name)
def test_every_block_runs_or_says_why_not(document: Path) -> None:
    for block in blocks(document):
        assert block.language in LANGUAGES, block
        assert block.reason is None or block.language in ("sh", "python"), block
        assert block.reason is None or block.reason in REASONS, f"{block}: {block.reason}"


def test_documents_that_are_tested_elsewhere_are() -> None:
    for name, test in TESTED_ELSEWHERE.items():
        assert name in (ROOT / test).read_text(encoding="utf-8")


@DOCUMENTS
@pytest.mark.usefixtures("parsing_only")
def test_commands_are_accepted_by_their_parsers(
    document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for block, entry_point, words in entry_point_commands(document):
        assert entry_point in ENTRY_POINTS, block
        module = importlib.import_module(module_of(entry_point))
        try:
            status = module.main(words)
        except (Parsed, SystemExit) as stop:
            if isinstance(stop, Parsed) or "--help" in words:
                continue
            status = stop.code
        pytest.fail(f"{block}: {entry_point}: {status}: {capsys.readouterr().err}")


def test_commands_are_found() -> None:
    found = {entry_point for path in ALL for _, entry_point, _ in entry_point_commands(path)}

    assert found == set(ENTRY_POINTS)


@DOCUMENTS
def test_scripts_have_the_options_that_are_named(document: Path) -> None:
    """Benchmarks and generators have their options in their sources."""
    for block in blocks(document):
        for line in block.text.replace("\\\n", " ").splitlines():
            script = re.search(r"python (?:-m (tools[.\w]+)|(benchmarks/\w+\.py))(.*)", line)
            if script:
                path = ROOT / (script[2] or f"{script[1].replace('.', '/')}.py")
                path = path if path.exists() else path.with_suffix("") / "__main__.py"
                source = path.read_text(encoding="utf-8")
                if "from options import" in source:  # those that several benchmarks share
                    source += (ROOT / "benchmarks/options.py").read_text(encoding="utf-8")
                for option in re.findall(r"(?<!\S)--[a-z][\w-]*", script[3]):
                    assert f'"{option}"' in source, f"{block}: {option}"


def test_options_in_the_text_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Documents about serving are left to tests/export: their options are of several programs."""
    known = set(FOREIGN).union(*(options_of(name, capsys) for name in ENTRY_POINTS))
    for document in [path for path in RUN if not path.name.startswith("serving-")]:
        for code in re.findall(r"`([^`\n]+)`", prose(document)):
            options = re.findall(r"(?<![\w-])--[a-z][\w.]*", code)
            options = [name for name in options if not name.endswith("_")]  # --train.adam_*
            assert set(options) <= known, f"{document.name}: {code}"


def test_fields_in_the_text_exist() -> None:
    fields = set(re.findall(r"`--([\w.]+)`", config_reference.reference()))
    for document in ALL:
        for code in re.findall(r"`([^`\n]+)`", prose(document)):
            named = re.fullmatch(r"(?:model|data|train|search)\.[a-z_0-9]+", code)
            if named and code not in NO_FIELDS:
                assert code in fields, f"{document.name}: {code}"


@DOCUMENTS
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        path, _, anchor = link.partition("#")
        place = (document.parent / path).resolve() if path else document
        assert place.exists(), f"{document.name}: {link}"
        assert not anchor or anchor in anchors(place), f"{document.name}: {link}"


@DOCUMENTS
def test_files_exist(document: Path) -> None:
    content = document.read_text(encoding="utf-8")
    for path in re.findall(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]+", content):
        path = path.rstrip(".")
        assert path.startswith(GENERATED) or (ROOT / path).exists(), f"{document.name}: {path}"


def test_readme_has_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_every_document_is_linked_and_in_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    linked = set(links(ROOT / "README.md"))
    for document in (ROOT / "docs").glob("*.md"):
        assert f"docs/{document.name}" in linked
        assert re.search(rf"(?<![\w/]){document.name}", site), document.name


def test_documents_are_in_plain_modern_english() -> None:
    for document in [*ALL, *sorted((ROOT / "configs").glob("*.yaml"))]:
        found = re.findall(AVOIDED, document.read_text(encoding="utf-8"))
        assert found == [], document.name


@pytest.mark.parametrize(
    ("generator", "generate"),
    [
        (config_reference, config_reference.reference),
        (architecture_picture, architecture_picture.picture),
    ],
    ids=["configuration", "architecture"],
)
def test_generated_documents_are_up_to_date(generator: Any, generate: Any) -> None:
    file, command = generator.FILE, generator.COMMAND

    assert file.read_text(encoding="utf-8") == generate(), f"{file.name}: run {command}"


def test_examples_of_yaml_are_well_formed() -> None:
    for document in RUN:
        for block in blocks(document):
            if block.language == "yaml":
                assert list(yaml.safe_load_all(block.text)), block


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
@pytest.mark.usefixtures("parsing_only")
def test_recipes_say_how_they_are_run(path: Path) -> None:
    comment = "".join(re.findall(r"(?m)^#(.*\n)", path.read_text(encoding="utf-8")))
    (command,) = re.findall(r"(?ms)^ +python -m keras_transformer\.train (.*?[^\\])$", comment)
    words = command.replace("\\\n", " ").split()

    assert words[:2] == ["--config", f"configs/{path.name}"]
    with pytest.raises(Parsed):
        importlib.import_module("keras_transformer.train").main(words)
