"""An exported folder in Hugging Face's own packages: ``python exported_marian.py SETTINGS``.

Loads what ``export --format marian-hf`` wrote, and writes the numbers of transformers about it:
see ``answers.py``. Pairs of text are scored too: ids of both sides and all logits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import answers
import corpus
import numpy as np
import torch
import torch_model
import transformers_search
from hugging_face import logits
from transformers import MarianMTModel, MarianTokenizer

SCORED = 32
"""Pairs whose logits are compared."""


def main() -> None:
    """Load, and ask."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    folder = Path(settings["folder"])
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    pad = model.config.pad_token_id
    call = logits(model, pad)

    def tokens(ids: list[int]) -> list[str]:
        return [tokenizer.decoder[number] for number in ids]

    found = transformers_search.ask(settings, model, call, settings["sources"], tokenizer, tokens)
    answers.write(Path(settings["answers"]), {"peer": "Hugging Face MarianMT", **found})
    arrays = {}
    for number, (source, target) in enumerate(corpus.read_pairs(settings, "test")[:SCORED]):
        ids = tokenizer(source).input_ids
        labels = tokenizer(text_target=target).input_ids
        with torch.no_grad():
            values = call(torch.tensor([ids]), torch_model.padded([[pad, *labels[:-1]]], pad))
        arrays |= {f"source{number}": np.array(ids), f"target{number}": np.array(labels)}
        arrays[f"logits{number}"] = values[0].numpy()
    np.savez(settings["logits"], **arrays)


if __name__ == "__main__":
    main()
