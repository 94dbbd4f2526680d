"""Run log, metrics, progress, TensorBoard, curves and summary."""
