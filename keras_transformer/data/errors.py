"""Errors in parallel text and tokenizers."""

from __future__ import annotations

from keras_transformer.errors import UserError


class DataError(UserError):
    """Parallel text that cannot be used; the message names the file, and the line if any."""


class ChangedDataError(DataError):
    """Prepared data that are not those of the present configuration, corpus or tokenizer."""


class TokenizerError(UserError):
    """Text or a file from which no tokenizer can be built; the message says why."""
