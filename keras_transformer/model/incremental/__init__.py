"""Incremental decoding: one target position at a time, with caches."""
