"""Run log, metrics, progress bar, TensorBoard, curves and summary."""
