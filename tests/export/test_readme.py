"""What the README tells to type exists, and what it shows is well formed."""

from __future__ import annotations

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
def readme(kit: Path) -> str:
    return (kit / "README.md").read_text(encoding="utf-8")


def blocks(readme: str, language: str) -> list[str]:
    """The code blocks in a language, without the indent of lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", readme, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"(?m)^{indent}", "", body) for indent, body in found]


def commands(readme: str) -> list[str]:
    """Commands of code blocks, continuation lines joined, and of running text."""
    joined = [block.replace("\\\n", " ") for block in blocks(readme, "sh")]
    return [line for block in joined for line in block.splitlines()] + re.findall(
        r"`([^`\n]+)`", re.sub(r"```.*?```", "", readme, flags=re.DOTALL)
    )


def help_of(program: list[str], kit: Path) -> str:
    done = subprocess.run(
        [sys.executable, *program, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=kit.parent,
    )
    return done.stdout


def test_links_lead_somewhere(readme: str, kit: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", readme)

    assert len(links) >= 9
    assert [link for link in links if not (kit / link).exists()] == []


def test_files_of_the_kit_exist(readme: str, kit: Path) -> None:
    named = set(re.findall(r"\bexport/[\w./-]+", readme))
    named = {path.rstrip(".") for path in named if not path.startswith("export/models")}

    assert {"export/compose.yaml", "export/requirements.txt"} <= named
    assert [path for path in named if not (kit.parent / path).exists()] == []


@pytest.mark.parametrize("program", ["rest_client", "grpc_client", "load_test"])
def test_programs_have_the_options_that_are_named(readme: str, kit: Path, program: str) -> None:
    lines = [line for line in commands(readme) if f"{program}.py" in line]
    options = {option for line in lines for option in re.findall(r"--[a-z][\w-]*", line)}

    assert options
    known = help_of([f"export/{program}.py"], kit)
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []


@pytest.mark.parametrize("module", ["export", "serve"])
def test_entry_points_have_the_options_that_are_named(readme: str, kit: Path, module: str) -> None:
    name = f"keras_transformer.{module}"
    lines = [line for line in commands(readme) if name in line]
    options = {option for line in lines for option in re.findall(r"--[a-z][\w.]*", line)}
    options |= {
        "export": {"--version", "--dtype", "--max_tokens", "--search.max_extra"},
        "serve": {"--versions", "--label"},
    }[module]

    assert lines
    known = help_of(["-m", name], kit)
    assert [option for option in options if not re.search(rf"{option}\b", known)] == []


def test_options_that_stand_alone_belong_to_some_program(readme: str, kit: Path) -> None:
    programs = [["export/rest_client.py"], ["export/grpc_client.py"], ["export/load_test.py"]]
    programs += [["-m", f"keras_transformer.{module}"] for module in ("export", "serve")]
    known = " ".join(help_of(program, kit) for program in programs)
    compose = (kit / "compose.yaml").read_text(encoding="utf-8")
    # Options of tensorflow_model_server, from the source of its main.cc, and of Docker.
    theirs = {"--rest_api_timeout_in_ms", "--ssl_config_file", "--memory", "--rm", "--init"}
    alone = {
        option
        for text in re.findall(r"`(--[^`]+)`", readme)
        for option in re.findall(r"--[a-z][\w.-]*", text)
    }

    assert alone
    for option in alone - theirs:
        assert re.search(rf"{option}\b", known) or option in compose, option


def test_requests_are_json_for_the_right_inputs(readme: str) -> None:
    seen = set()
    for block in blocks(readme, "sh"):
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


def test_replies_are_json(readme: str) -> None:
    replies = [json.loads(block) for block in blocks(readme, "json")]

    assert len(replies) == 10
    forms: list[Any] = [next(iter(reply)) for reply in replies]
    assert forms.count("predictions") == forms.count("outputs") == 5


def test_example_of_labels_parses(readme: str) -> None:
    (text,) = blocks(readme, "proto")
    found = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())

    (model,) = found.model_config_list.config
    assert set(model.version_labels.values()) <= set(model.model_version_policy.specific.versions)


def test_policies_of_the_table_parse(readme: str) -> None:
    policies = re.findall(r"`((?:latest|specific|all) \{.*?\})`", readme)

    assert len(policies) >= 4
    for policy in policies:
        config = model_server_config_pb2.ModelConfig()
        text_format.Parse(f"model_version_policy {{ {policy} }}", config)
        assert config.model_version_policy.WhichOneof("policy_choice") == policy.split()[0]


def test_probes_are_yaml_and_ask_as_compose_does(readme: str, kit: Path) -> None:
    (text,) = blocks(readme, "yaml")
    probe = yaml.safe_load(text)["readinessProbe"]["exec"]["command"]
    compose = yaml.safe_load((kit / "compose.yaml").read_text(encoding="utf-8"))

    assert ["CMD", *probe] == compose["services"]["translator"]["healthcheck"]["test"]


def test_nothing_is_left_to_fill_in(readme: str) -> None:
    assert "{{" not in readme
