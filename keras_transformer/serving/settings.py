"""Export options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from keras_transformer import config
from keras_transformer.config import Config, SearchConfig
from keras_transformer.errors import UserError
from keras_transformer.optional_dependencies import require_installed
from keras_transformer.validation import (
    MAX_LENGTH,
    MAX_STEPS,
    between,
    check_fields,
    option,
    require,
)

Precision = Literal[config.Precision, "int8", "float16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Format = Literal["saved_model", "ctranslate2", "marian-hf"]
FORMATS: tuple[Format, ...] = get_args(Format)

BYTES: dict[Precision, int] = {"float32": 4, "bfloat16": 2, "int8": 1, "float16": 2}
"""Bytes of a stored weight."""

_SMALL: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
DTYPES: dict[Format, tuple[Precision, ...]] = {
    "saved_model": _SMALL,
    "ctranslate2": _SMALL,
    "marian-hf": ("float32", "float16"),
}
"""Types of weights that a format can store."""

MAX_VERSION = 2**63 - 1
"""Greatest version number: servers keep it in 64 bits."""


class ExportError(UserError):
    """A run that cannot be exported with the given options."""


@dataclass(frozen=True)
class ExportSettings:
    """Options of the export, apart from the search.

    Raises:
        UserError: A value is of the wrong type or out of range, the format cannot store weights
            of the type, or the package of the format is missing.
    """

    format: Format = "saved_model"
    """saved_model for TensorFlow Serving, ctranslate2 for the engine CTranslate2, marian-hf for
    Hugging Face's MarianMT."""
    version: int | None = option(None, between(1, MAX_VERSION))
    """Version number; left out: the next one."""
    dtype: Precision = "float32"
    """Type of the weights: float32; bfloat16, half the size, computes in bfloat16 (fast on
    processors with bfloat16 arithmetic, slow on others); int8, a quarter of the size, computes
    in float32; float16, half the size, for marian-hf only, which has no bfloat16 and int8."""
    max_tokens: int | None = option(None, between(2, MAX_LENGTH))
    """Longest source in tokens, end token included; left out: the run's data.max_tokens."""
    dev_sentences: int = option(1_000, between(0, MAX_STEPS))
    """Dev sentences translated to measure BLEU; 0 measures none."""
    max_bleu_loss: float = option(0.2, between(0, 1_000))
    """Greatest loss of BLEU on these sentences that smaller weights may cause. Where BLEU with
    float32 weights is below 1, the translations must agree instead; 100 allows all."""

    def __post_init__(self) -> None:
        check_fields(self)
        *others, last = DTYPES[self.format]
        expected = f"{', '.join(others)} or {last} for --format {self.format}"
        require(self.dtype in (*others, last), "dtype", expected, self.dtype)
        if self.format == "ctranslate2":
            require_installed("format ctranslate2", ["ctranslate2"])

    def longest_source(self, config: Config) -> int:
        """Return the tokens of the longest source, END counted.

        Raises:
            ExportError: The model has fewer learned positions.
        """
        max_tokens = self.max_tokens or config.data.max_tokens
        limit = config.model.max_positions
        if config.model.positions == "learned" and max_tokens > limit:
            raise ExportError(
                f"max_tokens: expected at most {limit}, as many positions as the network has "
                f"learned, got {max_tokens}"
            )
        return max_tokens


def refuse_samples(search: SearchConfig) -> None:
    """Refuse sampling, which no export supports.

    Raises:
        ExportError: ``search.sample`` is set.
    """
    if search.sample:
        raise ExportError(
            "search.sample: expected false, an export searches with a beam, got true "
            "(--search.sample false)"
        )
