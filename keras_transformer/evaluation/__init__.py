"""Evaluation of translations: BLEU, chrF, TER and significance tests."""
