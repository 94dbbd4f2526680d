"""Errors that a user can correct."""

from __future__ import annotations


class UserError(ValueError):
    """An input, option or file that cannot be used; the message gives the reason.

    Every entry point prints the message alone and exits with status 2.
    """


class RunError(UserError):
    """A run folder that cannot be created or used."""
