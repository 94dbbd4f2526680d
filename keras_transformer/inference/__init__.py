"""Inference: translation and scoring of text with a trained model."""
