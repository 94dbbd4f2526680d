"""Errors of conversion."""

from __future__ import annotations

from keras_transformer.errors import UserError


class ConvertError(UserError):
    """A checkpoint that cannot be converted; the message names the file and the reason."""
