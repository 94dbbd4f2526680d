"""Converted settings and weights, computed by NumPy, compared with other systems' numbers.

`test_golden` compares the whole runs; this is the quick part.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.convert import bpe_codes, registry
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.special_tokens import UNKNOWN
from tests.support.reference_network import ReferenceNetwork, expected_paths

GOLDEN = Path(__file__).parent / "golden"
FORMATS = ("ctranslate2", "fairseq", "fsmt", "joeynmt")
MODELS = [file for name in FORMATS for file in sorted(GOLDEN.glob(f"{name}/*.json"))]
SENTENCES = 1


def token_ids(tokens: list[str], vocabulary: list[str], format_name: str) -> list[int]:
    """Return our ids of another system's tokens."""
    ids = {token: number for number, token in enumerate(vocabulary)}
    if format_name == "fsmt":  # marks the tokens that end a word, not the others
        tokens = [token[:-4] if token.endswith("</w>") else f"{token}@@" for token in tokens]
    if any(token.endswith("\u2581") for token in vocabulary if len(token) > 1):
        tokens = [token[:-2] if token.endswith("@@") else f"{token}\u2581" for token in tokens]
    return [ids.get(token, ids.get(f"\u2581{token}", UNKNOWN)) for token in tokens]


@pytest.mark.parametrize("file", MODELS, ids=[f"{each.parent.name}/{each.stem}" for each in MODELS])
def test_log_probabilities_of_n_best_lists(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe_codes, "SAMPLED_WORDS", 50)
    found = json.loads(file.read_text(encoding="utf-8"))
    model = registry.load(file.parent.name).read(file.with_suffix(""), ConvertSettings())
    assert set(model.weights) == expected_paths(model)
    network = ReferenceNetwork(model)
    source, target = (
        side.pieces(range(side.size)) for side in (model.tokenizer.source, model.tokenizer.target)
    )
    rows = zip(found["source_tokens"][:SENTENCES], found["n_best"][:SENTENCES], strict=True)
    for tokens, hypotheses in rows:
        for each in hypotheses[:2]:
            ids = [
                token_ids(row, side, model.format)
                for row, side in ((tokens, source), (each["tokens"], target))
            ]
            own = network.log_probabilities(*ids)
            expected = np.array(each["log_probs"])
            np.testing.assert_allclose(own[: len(expected)], expected, atol=3e-5)
