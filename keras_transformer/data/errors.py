"""Errors in parallel text."""

from __future__ import annotations

from keras_transformer.errors import UserError


class DataError(UserError):
    """Parallel text that cannot be used; the message names the file, and the line if any."""


class ChangedDataError(DataError):
    """Prepared data that are not those of the present configuration, corpus or tokenizer."""
