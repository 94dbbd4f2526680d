"""Implementations of standard operations in less time or memory.

Each file says why plain Keras or TensorFlow is not enough, with figures from
``benchmarks/kernels.py``: processor time and memory of one forward and backward pass in float32
on a two-core AMD EPYC.
"""
