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
    for section in TEXT.split("\n## ")[2:]:
        header, _, *rows = [line for line in section.splitlines() if line.startswith("|")][:99]
        if header.endswith("| tests |"):
            for row in rows:
                if not re.match(r"\| (?!.*--)(directly|through)", row):
                    assert "::" in row.rsplit("|", 2)[1], row
