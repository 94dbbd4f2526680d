"""Options of conversion."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from keras_transformer.validation import MAX_WIDTH, between, check_fields, option

Precision = Literal["float32", "float16"]


@dataclass(frozen=True)
class ConvertSettings:
    """Options of conversion. A format refuses those that it has no use for.

    Raises:
        ConfigError: A value is of the wrong type or out of range.
    """

    dtype: Precision = "float32"
    """Type of the weights in the run folder; float16 halves its size and rounds the weights. The
    model computes in float32 either way."""
    source_language: str = ""
    """Source language of the run (data.source); left out: read from the files, else src."""
    target_language: str = ""
    """Target language of the run (data.target); left out: read from the files, else tgt."""
    position_rates: Literal["", "paper", "tensor2tensor"] = ""
    """hf_marian: angular rates of the sinusoids. Hugging Face computes MarianMT with those of the
    paper, Marian trained it with those of Tensor2Tensor. Left out: as the files' own system."""
    stored_positions: bool = False
    """hf_marian: take the sinusoids stored in the checkpoint, often rounded to float16, as learned
    positions: exactly Hugging Face's numbers, but no sentence may be longer than the table."""
    preprocess: Literal["", "opus"] = ""
    """marian, hf_marian: opus: replace punctuation as OPUS-MT's preprocess.sh does, in the run's
    tokenizer. Left out: nothing, as Hugging Face."""
    heads: int = option(0, between(0, MAX_WIDTH))
    """opennmt_tf, ctranslate2: attention heads, where the files do not hold their number."""
    activation: str = ""
    """opennmt_tf: activation of the feed-forward network (model.activation), where the files do
    not hold it."""
    source_vocabulary: str = ""
    """marian, fairseq, opennmt_tf: file of the source vocabulary, if it is not beside the model."""
    target_vocabulary: str = ""
    """marian, fairseq, opennmt_tf: file of the target vocabulary, if it is not beside the model."""
    source_end: Literal["", "yes", "no"] = ""
    """opennmt_tf: whether sources end with the end token, where the files do not say it. Left out:
    as OpenNMT-tf by default, no."""
    dequantize: bool = False
    """ctranslate2: convert int8 or int16 weights, which are rounded ones of the trained model, to
    floating-point numbers."""

    def __post_init__(self) -> None:
        check_fields(self)

    def given(self) -> set[str]:
        """Return the names of the options that have another value than the default."""
        return {
            item.name
            for item in dataclasses.fields(self)
            if getattr(self, item.name) != item.default
        }
