"""Runs that Hugging Face's MarianMT can compute."""

from __future__ import annotations

from typing import Any

from keras_transformer.config import Config
from keras_transformer.config.model import ModelConfig
from keras_transformer.data.sentencepiece_tokenizer import SentencePiece
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.serving.settings import ExportError

# Values of model fields, with the reason.
_MODEL: dict[str, tuple[tuple[Any, ...], str]] = {
    "architecture": (("transformer",), "it has no recurrent network"),
    "ablation": (("none",), "it computes the paper's components only"),
    "positions": (
        ("sinusoidal", "learned", "none"),
        "it adds a table of positions to the embeddings",
    ),
    "embedding_norm": ((False,), "it does not normalize embeddings"),
}


def check(config: Config) -> None:
    """Refuse a run that MarianMT cannot compute.

    Biases that the run lacks are zeros there. Another epsilon of layer normalization, and
    positions other than MarianMT's, do not matter: see `network`.

    Raises:
        ExportError: Names the field, the expected value and the reason.
    """
    model = config.model
    for name, (expected, reason) in _MODEL.items():
        if getattr(model, name) not in expected:
            listed = ", ".join(map(_text, expected[:-1])) + " or " * (len(expected) > 1)
            _refuse(f"model.{name}", f"{listed}{_text(expected[-1])}", reason, model, name)
    for side in ("encoder", "decoder"):
        own = model.side(side)  # type: ignore[arg-type]
        name = "decoder_norm" if side == "decoder" and model.decoder_norm != "same" else "norm"
        if own.norm != "post":
            _refuse(f"model.{name}", "post", "it normalizes after each sub-layer", model, name)
        if own.final_norm == "both":
            reason = "it has no norm after the last layer"
            _refuse("model.final_norm", "auto or none", reason, model, "final_norm")
        for name, width in (("d_key", own.key_width), ("d_value", own.value_width)):
            if width * own.heads != model.d_model:
                raise ExportError(
                    f"model.{name}: expected {model.d_model // own.heads} for --format marian-hf "
                    f"(d_model / heads), the run has {width}"
                )
    if not config.data.source_end:
        raise ExportError(
            "data.source_end: expected true for --format marian-hf (its tokenizer ends each "
            "source with </s>), the run has false"
        )


def _refuse(field: str, expected: str, reason: str, model: ModelConfig, name: str) -> None:
    raise ExportError(
        f"{field}: expected {expected} for --format marian-hf ({reason}), the run has "
        f"{_text(getattr(model, name))}"
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def sentencepiece_sides(tokenizer: Tokenizer) -> tuple[SentencePiece, SentencePiece]:
    """Return the tokenizers of source and target.

    Raises:
        ExportError: They are no SentencePiece models.
    """
    source, target = tokenizer.source, tokenizer.target
    if isinstance(source, SentencePiece) and isinstance(target, SentencePiece):
        return source, target
    raise ExportError(
        "data.algorithm: expected unigram, bpe or char for --format marian-hf (its tokenizer reads "
        "SentencePiece models), the run has words"
    )
