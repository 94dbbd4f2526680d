"""Commands, options, requests and replies in the documents about serving."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

INPUTS = {
    "translate": {"text"},
    "nbest": {"text"},
    "options": {"text", "alpha", "max_extra"},
    "score": {"source", "target"},
    "align": {"text"},
}


@pytest.fixture(scope="module")
def documents(kit: Path) -> list[Path]:
    names = ("export/README.md", "docs/serving-api.md", "docs/serving-operations.md")
    return [kit.parent / name for name in names]


@pytest.fixture(scope="module")
def text(documents: list[Path]) -> str:
    """All documents."""
    return "\n".join(path.read_text(encoding="utf-8") for path in documents)


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks in a language without the indent of lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"(?m)^{indent}", "", body) for indent, body in found]


def commands(text: str) -> list[str]:
    """Return the commands of code blocks, with joined continuation lines, and of prose."""
    joined = [block.replace("\\\n", " ") for block in blocks(text, "sh")]
    return [line for block in joined for line in block.splitlines()] + re.findall(
        r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    )


@functools.cache
def help_of(kit: Path, *program: str) -> str:
    done = subprocess.run(
        [sys.executable, *program, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=kit.parent,
    )
    return done.stdout


def test_links(documents: list[Path]) -> None:
    for document in documents:
        links = re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8"))

        assert links
        assert [link for link in links if not (document.parent / link).exists()] == []


def test_readme_is_short(documents: list[Path]) -> None:
    assert len(documents[0].read_text(encoding="utf-8").splitlines()) <= 60


def test_files_exist(text: str, kit: Path) -> None:
    named = set(re.findall(r"\bexport/[\w./-]+", text))
    named = {path.rstrip(".") for path in named if not path.startswith("export/models")}

    assert {"export/compose.yaml", "export/requirements.txt"} <= named
    assert [path for path in named if not (kit.parent / path).exists()] == []


@pytest.mark.parametrize("program", ["rest_client", "grpc_client", "load_test"])
def test_programs_have_the_options_that_are_named(text: str, kit: Path, program: str) -> None:
    lines = [line for line in commands(text) if f"{program}.py" in line]
    options = {option for line in lines for option in re.findall(r"--[a-z][\w-]*", line)}

    assert options
    known = help_of(kit, f"export/{program}.py")
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []


@pytest.mark.parametrize("module", ["export", "serve"])
def test_entry_points_have_the_options_that_are_named(text: str, kit: Path, module: str) -> None:
    name = f"keras_transformer.{module}"
    lines = [line for line in commands(text) if name in line]
    options = {option for line in lines for option in re.findall(r"--[a-z][\w.]*", line)}
    options |= {
        "export": {"--max_tokens", "--search.max_extra", "--search.n_best"},
        "serve": {"--max_queue", "--grace_s", "--max_text_kb"},
    }[module]

    assert lines
    known = help_of(kit, "-m", name)
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []


def test_options_that_stand_alone_belong_to_some_program(text: str, kit: Path) -> None:
    programs = [["export/rest_client.py"], ["export/grpc_client.py"], ["export/load_test.py"]]
    programs += [["-m", f"keras_transformer.{module}"] for module in ("export", "serve")]
    known = " ".join(help_of(kit, *program) for program in programs)
    compose = (kit / "compose.yaml").read_text(encoding="utf-8")
    # Options of tensorflow_model_server, from the source of its main.cc, and of Docker.
    theirs = {"--rest_api_timeout_in_ms", "--ssl_config_file", "--memory", "--rm", "--init"}
    theirs |= {"--noproxy"}  # of curl
    alone = {
        option
        for code in re.findall(r"`(--[^`]+)`", text)
        for option in re.findall(r"--[a-z][\w.-]*", code)
    }

    assert alone
    for option in alone - theirs:
        assert re.search(rf"{option}\b", known) or option in compose, option


def test_requests_are_json_for_the_right_inputs(text: str) -> None:
    seen = set()
    for block in blocks(text, "sh"):
        for body in re.findall(r"curl -d '(.*?)'", block, re.DOTALL):
            request = json.loads(body)
            signature = request.get("signature_name", "translate")
            form = "instances" if "instances" in request else "inputs"
            seen.add((signature, form))
            for inputs in request["instances"] if form == "instances" else [request["inputs"]]:
                if not isinstance(inputs, dict):  # a bare value of the only input
                    assert len(INPUTS[signature]) == 1
                    continue
                assert set(inputs) == INPUTS[signature]

    assert seen == {(name, form) for name in INPUTS for form in ("instances", "inputs")}


def test_replies_are_json(text: str) -> None:
    replies = [json.loads(block) for block in blocks(text, "json")]

    assert len(replies) == 10
    forms: list[Any] = [next(iter(reply)) for reply in replies]
    assert forms.count("predictions") == forms.count("outputs") == 5


def test_example_of_labels_parses(text: str) -> None:
    (example,) = blocks(text, "proto")
    found = text_format.Parse(example, model_server_config_pb2.ModelServerConfig())

    (model,) = found.model_config_list.config
    assert set(model.version_labels.values()) <= set(model.model_version_policy.specific.versions)


def test_policies_of_the_table_parse(text: str) -> None:
    policies = re.findall(r"`((?:latest|specific|all) \{.*?\})`", text)

    assert len(policies) >= 4
    for policy in policies:
        config = model_server_config_pb2.ModelConfig()
        text_format.Parse(f"model_version_policy {{ {policy} }}", config)
        assert config.model_version_policy.WhichOneof("policy_choice") == policy.split()[0]


def test_probes_are_those_of_compose(text: str, kit: Path) -> None:
    (example,) = blocks(text, "yaml")
    probe = yaml.safe_load(example)["readinessProbe"]["exec"]["command"]
    compose = yaml.safe_load((kit / "compose.yaml").read_text(encoding="utf-8"))

    assert ["CMD", *probe] == compose["services"]["translator"]["healthcheck"]["test"]


def test_nothing_is_left_to_fill_in(text: str) -> None:
    assert "{{" not in text
