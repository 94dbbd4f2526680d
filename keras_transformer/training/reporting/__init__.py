"""Reporting of a run: log, metrics, progress, TensorBoard, curves and summary."""
