"""Export of a trained run in the format of an inference engine."""
