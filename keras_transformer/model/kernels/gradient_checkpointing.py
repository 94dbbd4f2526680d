"""Gradient checkpointing: activations of a layer computed again in the backward pass.

Training keeps what each operation needs for its gradient, which is most of the memory of a deep
network on long batches. Keeping only the inputs of each layer costs a second forward pass
(Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): six encoder layers (d_model
256, d_ff 1024) on 64 sentences of 64 tokens take 208 MiB instead of 579, and 1.9 s instead of 1.5.

Why not `keras.RematScope` or `tf.recompute_grad`: the first cannot call layers with keyword
arguments, such as ``training``, in a graph. In both, Keras' Dropout draws other numbers in the
second pass, so that gradients are wrong.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.compat.keras import nested_layers
from keras_transformer.model.kernels.dropout import Dropout, current_dropout_seed, dropout_seed


def checkpointed(layer: keras.layers.Layer, *inputs: tf.Tensor) -> tf.Tensor:
    """Call a layer in training mode, and again in the backward pass.

    Both calls use the same dropout seed: the one of `dropout_seed`, or a new one from the layer's
    first `Dropout`.

    Args:
        layer: A built layer whose only state is its weights and its dropouts' generators. The
            first call updates the weights that are not trainable.
        inputs: Tensors; floating-point ones get a gradient.

    Returns:
        The output, one tensor.
    """
    seed = current_dropout_seed()
    if seed is None:
        seed = _draw(layer)
    # Weights are arguments too: captured ones may have changed by the second call, and would get
    # no gradient.
    variables = layer.variables
    values = [tf.convert_to_tensor(variable.value) for variable in variables]

    # Moving statistics, which training updates; the paper's layers have none.
    state = layer.non_trainable_weights

    def call(seed: tf.Tensor, values: Any, inputs: Any) -> list[tf.Tensor]:
        pairs = list(zip(variables, values, strict=True))
        with keras.StatelessScope(pairs) as scope, dropout_seed(seed):
            output = layer(*inputs, training=True)
        return [output, *(scope.get_current_value(variable) for variable in state)]

    @tf.custom_gradient
    def run(seed: tf.Tensor, *tensors: tf.Tensor) -> Any:
        values, inputs = tensors[: len(variables)], tensors[len(variables) :]

        def gradient(upstream: tf.Tensor, *_: tf.Tensor) -> list[tf.Tensor | None]:
            # The seed too, because the dropout masks depend on nothing but it and shapes.
            later_seed, *later = (_after(upstream, x) for x in (seed, *inputs))
            sources = [x for x in (*values, *later) if x.dtype.is_floating]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                output = call(later_seed, values, later)[0]
            gradients = iter(tape.gradient(output, sources, upstream))
            return [None, *(next(gradients) if x.dtype.is_floating else None for x in tensors)]

        return call(seed, values, inputs), gradient

    output, *updated = run(seed, *values, *inputs)
    for variable, value in zip(state, updated, strict=True):
        variable.assign(value)
    return output


def _draw(layer: keras.layers.Layer) -> tf.Tensor:
    """Return a seed for all dropouts of a layer, (2,) int32."""
    for part in nested_layers(layer):
        if isinstance(part, Dropout) and part.rate:
            return part.draw()
    return tf.zeros([2], tf.int32)  # nothing is dropped


def _after(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Return ``x`` with a dependency on ``upstream``.

    Without it, a graph could run the second pass early or merge it with the first, and would keep
    its activations until the backward pass.
    """
    if x.dtype == tf.bool:
        return x
    first = tf.reshape(upstream, [-1])[:1]
    # A zero that no compiler can know; XLA ignores control dependencies.
    zero = tf.reduce_sum(tf.minimum(tf.abs(first), 0))
    return x + tf.cast(zero, x.dtype)
