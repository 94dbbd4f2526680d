"""Faster or smaller forms of the same mathematics.

Each file says why plain Keras is not enough, with figures from ``benchmarks/kernels.py``.
"""
