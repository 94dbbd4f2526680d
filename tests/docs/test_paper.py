"""docs/paper.md: what its examples print stands beside them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.documents import ROOT, blocks

pytestmark = pytest.mark.slow


def test_examples_print_what_the_comments_say() -> None:
    program = "\n".join(
        block.text for block in blocks(ROOT / "docs" / "paper.md") if block.language == "python"
    )
    expected = re.findall(r"(?m)^print\(.*\)  # (.+)$", program)
    done = subprocess.run(
        [sys.executable, "-"], input=program, capture_output=True, text=True, cwd=ROOT
    )

    assert done.returncode == 0, done.stderr
    assert len(expected) == program.count("print(") > 6
    # 0.36 of float32 has more digits as a Python number.
    received = [_rounded(line) for line in done.stdout.splitlines()]
    assert received == expected


def _rounded(line: str) -> str:
    return re.sub(r"\d+\.\d{6,}", lambda match: str(round(float(match[0]), 2)), line)
