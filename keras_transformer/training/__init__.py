"""Batches in, weights out: schedule, loss, step, checkpoints, progress."""
