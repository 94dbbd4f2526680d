"""The benchmark for GPUs: operations worked out by hand, and a run of all parts on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.config import ModelConfig

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_operations_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import gpu_task

    layers = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 4, "heads": 1, "d_ff": 8}
    model = ModelConfig(50, 10, embeddings="untied", **layers)
    # Encoder, 3 tokens: 2 * ((4 * 16 + 2 * 32) * 3 + 2 * 4 * 9) = 912.
    # Decoder, 2 tokens: 2 * 2 * ((8 * 16 + 2 * 32) * 2 + 2 * 4 * (4 + 6)) = 1,856.
    # Projection: 2 * 10 * 4 * 2 = 160. Backward, twice as many.
    found = gpu_task.operations(model, np.array([3]), np.array([2]))
    assert found == 3 * (912 + 1_856 + 160)


@pytest.mark.slow
def test_it_runs_end_to_end_on_a_cpu(tmp_path: Path) -> None:
    report = tmp_path / "gpu.json"
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/gpu.py"), "--quick", "--json", str(report)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "1 CPU, TensorFlow" in done.stdout
    assert "all equal to the last bit" in done.stdout
    assert "Left out" not in done.stdout
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [row["case"] for row in found["training"]] == [
        "base",
        "base, deterministic",
        "big, micro-batches of 6,250",
    ]
    for row in found["training"]:
        assert row.get("finite"), f"{row} {done.stderr[-2_000:]}"
        assert row["tokens_per_second"] > 0
        assert 0 < row["share"] < 1
    assert found["decoding"][0]["sentences_per_second"] > 0
    assert found["resumed"] == {"tensors": found["resumed"]["tensors"], "different": 0}
