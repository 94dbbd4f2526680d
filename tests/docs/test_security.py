"""The tests that docs/security.md names."""

from __future__ import annotations

import ast
import re

from tests.docs.documents import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_each_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 30
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in defined, f"{file}::{name}"


def test_each_threat_names_a_test() -> None:
    tables = [block.splitlines() for block in TEXT.split("\n\n") if block.startswith("|")]
    threats = [row for header, _, *rows in tables if header.endswith("| tests |") for row in rows]
    assert len(threats) > 20
    for row in threats:
        assert ".py::test_" in row.rstrip(" |").rpartition(" | ")[2], row
