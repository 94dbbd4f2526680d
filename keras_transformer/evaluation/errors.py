"""Errors of the evaluation."""

from __future__ import annotations

from keras_transformer.errors import UserError


class EvaluationError(UserError):
    """Translations and references that cannot be compared, or an unusable tokenizer."""
