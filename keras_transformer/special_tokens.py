"""Ids of the special tokens, the same in every vocabulary."""

from __future__ import annotations

PAD, UNKNOWN, START, END = 0, 1, 2, 3
