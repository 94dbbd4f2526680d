"""A layer without memory: its activations are computed anew in the backward pass.

Training keeps what each operation needs for its gradient, which for a deep network on long
batches is most of its memory. To keep only what goes into a layer costs a second forward pass
(Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost").
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.model.kernels.dropout import Dropout, current_dropout_seed, dropout_seed


def checkpointed(layer: keras.layers.Layer, *inputs: tf.Tensor) -> tf.Tensor:
    """Call a layer in training mode, and once more in the backward pass.

    Both times dropout drops the same, whatever became of its generators in between: inside of
    `dropout_seed` what that decides, otherwise by a seed that the layer's first dropout draws.

    Args:
        layer: A layer that has been built and whose only state are its weights and the
            generators of its dropouts.
        inputs: Tensors; those of numbers get a gradient.

    Returns:
        The output, one tensor.
    """
    seed = current_dropout_seed()
    if seed is None:
        seed = _draw(layer)
    # All that the call depends on goes through the function's arguments: what it would reach
    # for outside may have changed by then, and a variable's gradient would get lost.
    variables = layer.variables
    values = [tf.convert_to_tensor(variable.value) for variable in variables]

    def call(seed: tf.Tensor, values: Any, inputs: Any) -> tf.Tensor:
        with keras.StatelessScope(list(zip(variables, values, strict=True))), dropout_seed(seed):
            return layer(*inputs, training=True)

    @tf.custom_gradient
    def run(seed: tf.Tensor, *tensors: tf.Tensor) -> Any:
        values, inputs = tensors[: len(variables)], tensors[len(variables) :]

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor | None]:
            # The seed too: what dropout draws depends on it and on shapes only.
            later_seed, *later = (_after(upstream, x) for x in (seed, *inputs))
            sources = [x for x in (*values, *later) if x.dtype.is_floating]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                output = call(later_seed, values, later)
            found = iter(tape.gradient(output, sources, upstream))
            return [None, *(next(found) if x.dtype.is_floating else None for x in tensors)]

        return call(seed, values, inputs), gradient

    return run(seed, *values, *inputs)


def _draw(layer: keras.layers.Layer) -> tf.Tensor:
    """A seed for all dropouts of a layer, (2,) int32."""
    for part in layer._flatten_layers():
        if isinstance(part, Dropout) and part.rate:
            return part.draw()
    return tf.zeros([2], tf.int32)  # nothing is dropped


def _after(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """``x``, but not before ``upstream`` is known.

    A graph would otherwise compute everything at once, or find that it has done so already,
    and keep it until the backward pass gets there.
    """
    if x.dtype == tf.bool:
        return x
    first = tf.reshape(upstream, [-1])[:1]
    # 0, which no compiler can know; a control dependency would mean nothing to XLA.
    nothing = tf.reduce_sum(tf.minimum(tf.abs(first), 0))
    return x + tf.cast(nothing, x.dtype)
