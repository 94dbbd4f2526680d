"""What is chosen when a run is exported, beside the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from keras_transformer.errors import UserError

Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

MAX_VERSION = 2**63 - 1
"""Greatest number of a version: servers keep it in 64 bits."""


class ExportError(UserError):
    """A run that cannot be exported so."""


@dataclass(frozen=True)
class ExportSettings:
    """Choices of an export.

    Raises:
        ExportError: A value that makes no sense.
    """

    version: int | None = None
    """Number of the version; None: one more than the greatest that is there."""
    dtype: Precision = "float32"
    """How weights are stored."""
    max_tokens: int | None = None
    """Longest source, END counted; None: as in training."""
    dev_sentences: int = 1_000
    """Sentences of the dev set that are translated to measure BLEU; 0: none."""
    max_bleu_loss: float = 0.2
    """BLEU that weights of fewer bits may lose on them."""

    def __post_init__(self) -> None:
        for name, least in (("version", 1), ("max_tokens", 2), ("dev_sentences", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ExportError(f"{name}: expected {least} or more, got {value}")
        if self.version is not None and self.version > MAX_VERSION:
            raise ExportError(f"version: expected at most {MAX_VERSION}, got {self.version}")
        if self.dtype not in PRECISIONS:
            raise ExportError(f"dtype: expected one of {', '.join(PRECISIONS)}, got {self.dtype!r}")
        if not self.max_bleu_loss >= 0:
            raise ExportError(f"max_bleu_loss: expected 0 or more, got {self.max_bleu_loss}")
