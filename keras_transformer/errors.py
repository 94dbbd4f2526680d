"""The common base of every error that a user can mend."""

from __future__ import annotations


class UserError(ValueError):
    """Something given by the user cannot be used; the message says what and why.

    Every entry point prints the message alone and ends with exit status 2.
    """
