"""Training: schedule, loss, step, optimizer, checkpoints, dev set and reporting."""
