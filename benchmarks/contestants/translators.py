"""Translators of text with models on disk: ``python translators.py SETTINGS``.

SETTINGS: ``system``, ``model`` (its folder), ``dtype``, ``beam``, and ``length``, the tokens of
each translation, its end included. A request has ``batches`` of lines; see ``protocol.py``. Each
system runs in an environment of its own:

- saved_model: an export in TensorFlow's C++ runtime, as TensorFlow Serving runs it; beam and length
  are fixed in the export
- ctranslate2: an export for CTranslate2, with SentencePiece
- hugging_face: a MarianMT with its own tokenizer and ``generate``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import protocol

REPLIES = protocol.quiet()  # before the libraries say anything

Translate = Callable[[list[str]], list[str]]


def saved_model(settings: dict[str, Any]) -> Translate:
    """Return a function that runs a SavedModel."""
    from tests.support.c_api import Runtime
    from tests.support.tf_c_session import SavedModelSession, installed

    session = SavedModelSession(Runtime(installed()), Path(settings["model"]))

    def translate(lines: list[str]) -> list[str]:
        outputs = session.run("serving_default", {"text": [line.encode() for line in lines]})
        return [text.decode() for text in outputs["translation"].tolist()]

    return translate


def ctranslate2(settings: dict[str, Any]) -> Translate:
    """Return a function that runs CTranslate2, in the type of the model's weights."""
    import ctranslate2
    import sentencepiece

    folder = Path(settings["model"])
    engine = ctranslate2.Translator(
        str(folder), compute_type="auto" if settings["dtype"] == "int8" else "float32",
        inter_threads=1, intra_threads=protocol.threads(1),
    )  # fmt: skip
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.model"))
        for side in ("source", "target")
    )
    card = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    options = card["translate_batch"] | {
        "beam_size": settings["beam"],
        "min_decoding_length": settings["length"],
        "max_decoding_length": settings["length"],
    }

    def translate(lines: list[str]) -> list[str]:
        found = engine.translate_batch(source.encode(lines, out_type=str), **options)
        check(settings, [len(one.hypotheses[0]) for one in found])
        return target.decode([one.hypotheses[0] for one in found])

    return translate


def hugging_face(settings: dict[str, Any]) -> Translate:
    """Return a function that runs a MarianMT."""
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    torch.set_num_threads(protocol.threads(1))
    tokenizer = MarianTokenizer.from_pretrained(settings["model"])
    model = MarianMTModel.from_pretrained(
        settings["model"], dtype=getattr(torch, settings["dtype"])
    ).eval()
    length = settings["length"]

    def translate(lines: list[str]) -> list[str]:
        batch = tokenizer(lines, return_tensors="pt", padding=True)
        with torch.inference_mode():
            found = model.generate(
                **batch, num_beams=settings["beam"], do_sample=False,
                min_new_tokens=length - 1, max_new_tokens=length,
            )  # fmt: skip
        check(settings, [found.shape[1] - 1])  # the start token counts
        return tokenizer.batch_decode(found, skip_special_tokens=True)

    return translate


def check(settings: dict[str, Any], lengths: list[int]) -> None:
    """Refuse translations of another length, which would take another time."""
    if any(length != settings["length"] for length in lengths):
        raise SystemExit(f"expected {settings['length']} tokens each, got {lengths}")


SYSTEMS: dict[str, tuple[Callable[[dict[str, Any]], Translate], list[str]]] = {
    "saved_model": (saved_model, ["tensorflow"]),
    "ctranslate2": (ctranslate2, ["ctranslate2"]),
    "hugging_face": (hugging_face, ["transformers", "torch"]),
}


def main() -> None:
    """Answer requests."""
    settings = json.loads(sys.argv[1])
    load, packages = SYSTEMS[settings["system"]]
    translate = load(settings)
    protocol.serve(
        lambda request: [line for batch in request["batches"] for line in translate(batch)],
        REPLIES,
        packages,
    )


if __name__ == "__main__":
    main()
