"""Converted models, compared with numbers of the systems that they come from.

Each file golden/FORMAT/MODEL.json holds the numbers of the other system about its own model in
golden/FORMAT/MODEL/. ``python benchmarks/conversion.py --golden`` makes both in that system's own
environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.convert.conversion import convert
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.settings import ConvertSettings

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
REFUSED = {"opennmt_tf/relative": "relative"}
SETTINGS: dict[str, dict[str, Any]] = {"hf_marian/float16": {"stored_positions": True}}
FILES = sorted(GOLDEN.glob("*/*.json"))
MODELS = [f"{file.parent.name}/{file.stem}" for file in FILES]
MODELS = [name for name in MODELS if name not in REFUSED]
BEAMS = {
    *("hf_marian/shared", "marian/shared", "opennmt_tf/shared", "joeynmt/pre"),
    *("fairseq/shared", "fsmt/separate", "ctranslate2/opennmt"),
}
"""One model of each format: beam search is compared for these only, which takes time."""
WORST_TOKEN = 1e-4
"""Largest difference of a token's log-probability."""


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "foreign"))
    monkeypatch.delitem(sys.modules, "comparison", raising=False)
    import comparison

    return comparison


def converted(name: str, run: Path) -> list[str]:
    """Convert a golden model; return the printed lines."""
    lines: list[str] = []
    settings = ConvertSettings(**SETTINGS.get(name, {}))
    convert(GOLDEN / name, run, settings, "", lines.append, lambda: None)
    assert lines[0].startswith(f"format: {name.split('/')[0]} ")  # recognised by its files
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_converted_model_computes_what_its_own_system_computes(
    comparison: Any, name: str, tmp_path: Path
) -> None:
    found = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    converted(name, tmp_path / "run")
    result = comparison.ConvertedRun(tmp_path / "run", found).compare(beams=name in BEAMS)
    print(name, result)
    assert result.equal_sources == result.sources
    assert result.tokens >= 30
    assert result.worst_token <= WORST_TOKEN
    assert result.equal_greedy + result.ties == result.sources
    if not found.get("first_tokens"):
        assert result.equal_texts == result.texts > 0
    if name in BEAMS:
        # Both searches rank by the same score, though they end by other rules.
        assert result.common >= 0.7 * result.hypotheses > 0
        assert result.worst_score <= WORST_TOKEN


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_with_unknown_parts_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=REFUSED[name]):
        converted(name, tmp_path / "run")
    assert not (tmp_path / "run").exists()
