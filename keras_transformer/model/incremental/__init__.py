"""Incremental decoding: one target position at a time, with caches of keys and values."""
