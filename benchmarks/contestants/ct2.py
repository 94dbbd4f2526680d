"""CTranslate2 as a contestant: ``python ct2.py SETTINGS``; see ``protocol.py``.

Runs in an environment of its own, but for ``prepare``, which is this package's conversion of
the common weights.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import protocol


class Numbers:
    """Stand-in for both sides of a tokenizer in a workload without text: each piece is its id.

    Args:
        size: Ids.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.source = self.target = self

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the names of ids."""
        return [str(one) for one in ids]


def prepare(settings: dict[str, Any]) -> None:
    """Convert the common weights."""
    import ours

    from keras_transformer.config import ModelConfig
    from keras_transformer.run import Run
    from keras_transformer.serving.ctranslate2 import spec

    config = ModelConfig(**settings["model"])
    run = settings["run"]
    tokenizer: Any = (
        Run.open(Path(run)).tokenizer() if run else Numbers(config.target_vocabulary_size)
    )
    model = ours.build(settings)
    model_spec = spec.build_spec(model, config, tokenizer, 1024, "float32")
    folder = Path(settings["folder"]) / "ctranslate2"
    folder.mkdir()
    model_spec.save(str(folder))


def load(settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the engine and the options of each call."""
    import ctranslate2

    engine = ctranslate2.Translator(
        str(Path(settings["folder"]) / "ctranslate2"),
        compute_type=settings["dtype"],
        inter_threads=settings["workers"],
        intra_threads=protocol.threads(settings["workers"]),
    )
    options = {
        "beam_size": settings["beam"],
        "length_penalty": settings["alpha"],
        "min_decoding_length": settings["length"] or 1,
        "max_decoding_length": settings["length"] or settings["longest"],
    }
    return engine, options


def text(settings: dict[str, Any]) -> Any:
    """Return a function that translates lines."""
    import sentencepiece

    engine, options = load(settings)
    pieces = sentencepiece.SentencePieceProcessor(model_file=settings["pieces"])

    def answer(request: dict[str, Any]) -> list[str]:
        sources = pieces.encode(request["lines"], out_type=str)
        found = engine.translate_batch(
            sources, max_batch_size=request["batch_tokens"], batch_type="tokens", **options
        )
        return pieces.decode([one.hypotheses[0] for one in found])

    return answer


def exact(settings: dict[str, Any]) -> Any:
    """Return a function that translates ids into outputs of one length."""
    engine, options = load(settings)

    def answer(request: dict[str, Any]) -> list[list[int]]:
        # The engine adds END itself, and shares out what it is given at once to its workers.
        pieces = [[[str(one) for one in ids[:-1]] for ids in batch] for batch in request["batches"]]
        if settings["workers"] > 1:
            size = max(map(len, pieces))
            pieces = [[ids for batch in pieces for ids in batch]]
            options["max_batch_size"] = size
        found = [one for batch in pieces for one in engine.translate_batch(batch, **options)]
        return [[int(piece) for piece in one.hypotheses[0]] for one in found]

    return answer


def main() -> None:
    """Prepare, or answer requests."""
    replies = protocol.quiet()
    settings = json.loads(sys.argv[1])
    if settings["task"] == "prepare":
        prepare(settings)
    else:
        protocol.serve(
            {"text": text, "exact": exact}[settings["task"]](settings), replies, ["ctranslate2"]
        )


if __name__ == "__main__":
    main()
