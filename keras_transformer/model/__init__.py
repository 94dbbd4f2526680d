"""The network of *Attention Is All You Need*, one component in each file.

One legend for shapes: B batch, S source length, T target length, H heads, D model width,
K width of a head's queries and keys, K' of its values, V vocabulary size, W beam width,
R rows (B * W).
"""
