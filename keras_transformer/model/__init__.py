"""The network of *Attention Is All You Need*, one component a file.

Shapes use one legend everywhere: B batch, S source length, T target length, H heads,
D model width, K head width, V vocabulary, W beam width, R rows (B * W).
"""
