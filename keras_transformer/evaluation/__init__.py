"""How good translations are: BLEU, chrF, TER, and whether a difference means anything."""
