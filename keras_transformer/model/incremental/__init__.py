"""Incremental decoding: one target position at a time, with cached keys and values."""
