"""A very small endurance test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_a_small_endurance_test_passes_and_goes_on(tmp_path: Path) -> None:
    words = ["--folder", str(tmp_path), "--only", "training", "server"]
    words += ["--trials", "2", "--minutes", "0.34"]
    command = [sys.executable, "-m", "tools.soak", *words]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert first.returncode == 0, first.stdout + first.stderr[-3000:]
    values = json.loads((tmp_path / "soak.json").read_text(encoding="utf-8"))
    counts = {(row["section"], row["kind"]): row["disturbances"] for row in values["kinds"]}
    assert counts == {
        ("training", "device"): 1,
        ("training", "replicas"): 1,
        ("server", "load"): 20,
    }
    assert values["server"]["outcomes"]["answered"] > 50
    assert values["server"]["damaged versions"] > 0
    assert "| training | replicas | 1 | 1 kills | 0 |" in first.stdout
    lines = (tmp_path / "trials.jsonl").read_text(encoding="utf-8")
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert second.returncode == 0, second.stderr[-3000:]
    assert (tmp_path / "trials.jsonl").read_text(encoding="utf-8") == lines
