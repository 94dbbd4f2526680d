"""CTranslate2 in the conversion proof: ``python ct2.py SETTINGS``.

Asks a model that CTranslate2's own converter made, except for the last. Variants:

- opennmt: of OpenNMT-tf's model shared; that script writes it
- marian: of Marian's model shared
- own: this package's export of a run that was converted from OpenNMT-tf's model shared; no
  converter of CTranslate2 takes part
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import answers
import corpus
import ctranslate2
import numpy as np
import sentencepiece

ALPHA = 1.0


def ask(settings: dict[str, Any], folder: Path, models: list[Any]) -> answers.Answers:
    """Return the numbers of the model."""
    engine = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1, inter_threads=1)
    sources = [pair[0] for pair in corpus.read_pairs(settings, "test")][: settings["sentences"]]
    cut = [models[0].encode(line, out_type=str) for line in sources]
    most = settings["most"]
    options = {"max_decoding_length": most, "length_penalty": ALPHA, "return_scores": True}
    greedy = []
    for reply in engine.translate_batch(cut, beam_size=1, **options):
        words = reply.hypotheses[0]
        greedy.append(answers.greedy(words, models[-1].decode(words), len(words) < most))
    n_best = []
    few = cut[: settings["n_best_sentences"]]
    replies = engine.translate_batch(
        few, beam_size=settings["beam"], num_hypotheses=settings["beam"], **options
    )
    for source, reply in zip(few, replies, strict=True):
        scored = engine.score_batch([source] * len(reply.hypotheses), reply.hypotheses)
        own = []
        for words, score, forced in zip(reply.hypotheses, reply.scores, scored, strict=True):
            ended = len(words) < most
            numbers = forced.log_probs[: len(words) + ended]
            own.append(answers.hypothesis(words, numbers, score, ended))
        n_best.append(own)
    return {
        "peer": "CTranslate2",
        "variant": settings["variant"],
        "versions": answers.versions(["ctranslate2"]),
        "search": {
            "beam": settings["beam"],
            "alpha": ALPHA,
            "length_penalty": "power",
            "most": most,
        },
        "sources": sources,
        "source_tokens": cut,
        "n_best": n_best,
        "greedy": greedy,
    }


def main() -> None:
    """Convert if necessary, and ask."""
    settings = json.loads(sys.argv[1])
    folder, origin = Path(settings["folder"]), Path(settings["origin"])
    names = ["joint.model"]
    if settings["variant"] == "marian":
        vocabularies = [str(origin / "vocab.yml")] * 2
        model = Path(settings["text"]) / "model.npz"
        # The converter expects one NUL at the end of the settings; Marian writes two of a model
        # that it went on training.
        with np.load(origin / "model.npz") as file:
            tensors = {name: file[name] for name in file.files}
        text = tensors["special:model.yml"].tobytes().rstrip(b"\0") + b"\0"
        tensors["special:model.yml"] = np.frombuffer(text, np.int8)
        np.savez(model, **tensors)
        converter = ctranslate2.converters.MarianConverter(str(model), vocabularies)
        converter.convert(str(folder), force=True)
        names = ["source.spm", "target.spm"]
    models = []
    for name in names:
        # Those who serve such a model keep the SentencePiece files beside it.
        if folder != origin:
            (folder / name).write_bytes((origin / name).read_bytes())
        models.append(sentencepiece.SentencePieceProcessor(model_file=str(folder / name)))
    answers.write(Path(settings["answers"]), ask(settings, folder, models))


if __name__ == "__main__":
    main()
