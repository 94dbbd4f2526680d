"""Faster or smaller forms of the same mathematics.

Each file says why plain Keras or TensorFlow is not enough, with figures from
``benchmarks/kernels.py``: forward and backward pass in float32 on a two-core AMD EPYC,
milliseconds of processor time and the memory of one pass.
"""
