"""Conversion of checkpoints of other systems to run folders."""
