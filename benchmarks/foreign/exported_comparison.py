"""Comparison of a run with its own export in Hugging Face's packages.

Runs in this package's environment; ``exported_marian.py`` made the numbers.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from comparison import ConvertedRun

from keras_transformer.run import Run
from keras_transformer.serving.marian_hf.network import MarianNetwork
from keras_transformer.serving.marian_hf.representable import sentencepiece_sides
from keras_transformer.serving.marian_hf.vocabulary import MarianVocabulary, vocabularies
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN


def compare_logits(run: Run, file: Path, pairs: corpus.Pairs) -> dict[str, Any]:
    """Compare ids and logits of pairs.

    Args:
        run: The run.
        file: Arrays of ``exported_marian.py``.
        pairs: The texts.

    Returns:
        ``pairs``, those with ``equal_pairs`` of ids, and the ``worst_logit``, padding aside.
    """
    model, tokenizer = run.model(), run.tokenizer()
    sides = sentencepiece_sides(tokenizer)
    common = run.config.model.embeddings == "tied" or tokenizer.same_ids
    lacking = MarianNetwork(model, run.config.model, 1).lacking()
    both = vocabularies(*sides, lacking, common)
    equal, worst, arrays = 0, 0.0, np.load(file)
    count = len(arrays.files) // 3
    for number, texts in enumerate(pairs[:count]):
        ids = [[*side.encode([text])[0], END] for side, text in zip(sides, texts, strict=True)]
        theirs = [_numbers(own, rows) for own, rows in zip(ids, both, strict=True)]
        wanted = [arrays[f"{name}{number}"].tolist() for name in ("source", "target")]
        if theirs != wanted:
            continue
        equal += 1
        inputs = {"source": np.array([ids[0]]), "target": np.array([[START, *ids[1][:-1]]])}
        own = model(inputs, training=False)[0].numpy()[:, both[1].rows]
        difference = np.abs(own - arrays[f"logits{number}"])
        difference[:, both[1].pad] = 0
        worst = max(worst, float(difference.max()))
    return {"pairs": count, "equal_pairs": equal, "worst_logit": worst}


def _numbers(ids: list[int], vocabulary: MarianVocabulary) -> list[int]:
    number = {int(row): token for token, row in enumerate(vocabulary.rows)}
    return [number.get(token, number[UNKNOWN]) for token in ids if token != PAD]


def main() -> None:
    """Print the comparison of RUN with the numbers in ANSWERS and LOGITS, as JSON."""
    folder, file, logits, text = map(Path, sys.argv[1:5])
    found = json.loads(file.read_text(encoding="utf-8"))
    figures = dataclasses.asdict(ConvertedRun(folder, found).compare())
    pairs = corpus.read_pairs({"text": str(text)}, "test")
    print(json.dumps(figures | compare_logits(Run.open(folder), logits, pairs)))


if __name__ == "__main__":
    main()
