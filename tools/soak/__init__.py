"""Endurance test of training, server and batch translation: ``python -m tools.soak``."""
