"""Blockwise attention, compared with plain attention: results, gradients, memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.model import transformer
from keras_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention
from keras_transformer.model.kernels import blockwise_attention
from keras_transformer.model.kernels.dropout import Dropout, dropout_seed
from keras_transformer.model.masks import look_ahead_mask
from keras_transformer.model.variants.alibi import AlibiAttention, alibi_bias
from keras_transformer.model.variants.rotary import RotaryAttention

HEADS, KEY, VALUE = 3, 4, 5
LAYERS = [MultiHeadAttention, RotaryAttention, AlibiAttention]


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _inputs(batch: int, queries: int, keys: int) -> list[tf.Tensor]:
    """Return queries, keys, values, and a gradient of the output."""
    lengths = (queries, KEY), (keys, KEY), (keys, VALUE), (queries, VALUE)
    return [tf.constant(_normal(batch, HEADS, *size, seed=i)) for i, size in enumerate(lengths)]


def _results(attend: Any, queries: Any, keys: Any, values: Any, upstream: Any) -> list[tf.Tensor]:
    """Return the output and the gradients of queries, keys and values."""
    with tf.GradientTape() as tape:
        tape.watch([queries, keys, values])
        output = attend(queries, keys, values)
    return [output, *tape.gradient(output, [queries, keys, values], upstream)]


def _plain(causal: bool = False, mask: Any = None, alibi: bool = False) -> Any:
    def attend(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        length, memory = queries.shape[2], keys.shape[2]
        past = look_ahead_mask(length, memory)
        seen = mask if not causal else past if mask is None else mask & past
        bias = None
        if alibi:
            bias = _alibi(tf.range(length)[:, None] - tf.range(memory)[None, :])
        return scaled_dot_product_attention(queries, keys, values, seen, bias)[0]

    return attend


def _alibi(distance: tf.Tensor) -> tf.Tensor:
    return alibi_bias(HEADS, distance)


def _blockwise(size: int, **options: Any) -> Any:
    def attend(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        with mock.patch.object(blockwise_attention, "BLOCK", size):
            return blockwise_attention.blockwise_attention(queries, keys, values, **options)

    return attend


def _graph(attend: Any, jit: bool = False) -> Any:
    """Return `_results` as a graph with unknown sizes."""
    shapes = [tf.TensorSpec([None, HEADS, None, width]) for width in (KEY, KEY, VALUE, VALUE)]
    return tf.function(
        lambda *inputs: _results(attend, *inputs), input_signature=shapes, jit_compile=jit
    )


def _assert_close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    for one, other in zip(actual, expected, strict=True):
        one, other = tf.cast(one, tf.float32), tf.cast(other, tf.float32)
        np.testing.assert_allclose(one, other, atol=tolerance * max(1.0, np.abs(other).max()))


@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 11), st.integers(1, 11)),
    block=st.integers(1, 12),
    causal=st.booleans(),
    alibi=st.booleans(),
    # Axes of the mask (B, H, T, S) with more than one entry.
    axes=st.none() | st.tuples(*[st.booleans()] * 4),
    share=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_equal_to_plain_attention(
    sizes: Any, block: int, causal: bool, alibi: bool, axes: Any, share: float
) -> None:
    batch, queries, keys = sizes
    mask = None
    if axes is not None:
        whole = (batch, HEADS, queries, keys)
        shape = [size if open_ else 1 for size, open_ in zip(whole, axes, strict=True)]
        mask = tf.constant(np.random.default_rng(1).random(shape) < share)
    inputs = _inputs(batch, queries, keys)
    attend = _blockwise(block, mask=mask, causal=causal, bias=_alibi if alibi else None)
    _assert_close(_results(attend, *inputs), _results(_plain(causal, mask, alibi), *inputs))


@pytest.mark.parametrize(
    ("causal", "jit"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
    ],
)
def test_a_graph_with_unknown_sizes_works_for_all_lengths(causal: bool, jit: bool) -> None:
    graph = _graph(_blockwise(4, causal=causal, bias=_alibi), jit)
    for sizes in ((2, 3, 9), (1, 9, 9), (2, 10, 1)):
        inputs = _inputs(*sizes)
        _assert_close(graph(*inputs), _results(_plain(causal, alibi=True), *inputs))


def test_a_mask_may_have_fewer_axes() -> None:
    inputs = _inputs(2, 5, 7)
    mask = tf.constant(np.random.default_rng(1).random((5, 7)) < 0.5)
    _assert_close(_results(_blockwise(3, mask=mask), *inputs), _results(_plain(mask=mask), *inputs))


def test_the_default_block_is_divided_evenly_too() -> None:
    inputs = _inputs(1, blockwise_attention.BLOCK + 1, 2 * blockwise_attention.BLOCK + 3)
    _assert_close(
        _results(blockwise_attention.blockwise_attention, *inputs), _results(_plain(), *inputs)
    )


def test_without_queries_or_keys_all_results_are_zero() -> None:
    for queries, keys in ((0, 3), (3, 0)):
        results = _results(_blockwise(2), *_inputs(2, queries, keys))
        assert [x.shape[2] for x in results] == [queries, queries, keys, keys]
        assert not any(x.numpy().any() for x in results)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_query_without_keys_gives_zero_and_changes_no_other(dtype: str) -> None:
    inputs = [tf.cast(x, dtype) for x in _inputs(1, 5, 6)]
    mask = np.random.default_rng(1).random((1, 1, 5, 6)) < 0.5
    mask[:, :, (0, 3)] = False
    results = _results(_blockwise(2, mask=tf.constant(mask)), *inputs)
    for one in results:
        assert one.dtype == dtype
        assert np.isfinite(tf.cast(one, tf.float32)).all()
    for one in results[:2]:
        assert not tf.cast(one, tf.float32).numpy()[:, :, (0, 3)].any()
    expected = _results(_plain(mask=tf.constant(mask)), *inputs)
    _assert_close(results, expected, 1e-5 if dtype == "float32" else 0.02)


def test_large_scores_do_not_overflow() -> None:
    queries, keys, values, upstream = _inputs(1, 5, 6)
    inputs = queries * 1e17, keys * 1e17, values, upstream * 1e-17
    mask = tf.constant(np.random.default_rng(1).random((1, 1, 5, 6)) < 0.5)
    results = _results(_blockwise(2, mask=mask), *inputs)
    for one, other in zip(results, _results(_plain(mask=mask), *inputs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
def test_bfloat16_sums_up_in_float32() -> None:
    # A sum of 4,096 ones: in bfloat16 it would stop at 256.
    ones = tf.ones([1, 1, 4096, 4], tf.bfloat16)
    output, *gradients = _results(_blockwise(16), ones[:, :, :1], ones, ones, ones[:, :, :1])
    np.testing.assert_array_equal(tf.cast(output, tf.float32), np.ones((1, 1, 1, 4)))
    sums = tf.reduce_sum(tf.cast(gradients[2], tf.float32), axis=2)
    np.testing.assert_array_equal(sums, np.ones((1, 1, 4)))


def test_blocks_in_the_future_are_skipped() -> None:
    asked = []

    def bias(distance: tf.Tensor) -> tf.Tensor:
        asked.append(int(distance[0, 0]))
        return tf.zeros(tf.shape(distance))

    _results(_blockwise(2, causal=True, bias=bias), *_inputs(1, 8, 8))
    # Four blocks of two: ten pairs that are not entirely masked, forward and backward.
    assert len(asked) == 2 * 10
    assert min(asked) == 0
    asked.clear()
    _results(_blockwise(2, bias=bias), *_inputs(1, 8, 8))
    assert len(asked) == 2 * 16


def _whole(drop: Any, batch: int, size: int, count: int) -> tf.Tensor:
    """Return the dropout mask of all pairs of positions, assembled from blocks."""
    shape = tf.constant([batch, HEADS, size, size])
    rows = [
        tf.concat([drop(shape, tf.constant(i * count + j)) for j in range(count)], axis=3)
        for i in range(count)
    ]
    return tf.concat(rows, axis=2)


@pytest.mark.parametrize("in_graph", [False, True])
def test_dropout_masks_are_equal_in_forward_and_backward_pass(in_graph: bool) -> None:
    with dropout_seed(tf.constant([1, 2])):
        drop = Dropout(0.4, seed=7, dtype="float32").blockwise()
    factors = _whole(drop, 2, 3, 3)
    inputs = _inputs(2, 9, 9)

    def plain(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        mask = look_ahead_mask(9, 9)
        return scaled_dot_product_attention(
            queries, keys, values, mask, dropout=lambda weights: weights * factors
        )[0]

    attend = _blockwise(3, causal=True, dropout=drop)
    results = _graph(attend)(*inputs) if in_graph else _results(attend, *inputs)
    _assert_close(results, _results(plain, *inputs))


def test_blocks_have_the_dropout_rate_and_different_masks() -> None:
    drop = Dropout(0.25, seed=7).blockwise()
    shape = tf.constant([1, 1, 100, 100])
    one, two = (drop(shape, tf.constant(number)).numpy() for number in (0, 1))
    np.testing.assert_array_equal(drop(shape, tf.constant(0)), one)
    for factors in (one, two):
        np.testing.assert_allclose(factors[factors != 0.0], 1.0 / 0.75, rtol=1e-4)
        assert abs((factors == 0.0).mean() - 0.25) < 5 * (0.25 * 0.75 / 10_000) ** 0.5
    # Independent blocks agree at a position with probability 0.25² + 0.75² = 0.625.
    assert abs(((one == 0.0) == (two == 0.0)).mean() - 0.625) < 5 * (0.625 * 0.375 / 1e4) ** 0.5


_MEMORY = """
import tensorflow as tf
from keras_transformer.model.kernels.blockwise_attention import blockwise_attention

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = blockwise_attention(x, x, x, causal=True)
    return tape.gradient(y, x)

step(tf.ones([1, 1, 300, 8]))
before = max(status("VmHWM"), status("VmRSS"))
step(tf.ones([1, 1, 8192, 8]))
print(status("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_below_that_of_one_matrix_of_scores() -> None:
    command = [sys.executable, "-c", _MEMORY]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 8192 * 8192 * 4 // 1024 // 2  # half of one, KiB


# The layer and the network


def _layers(kind: Any = MultiHeadAttention, **options: Any) -> tuple[Any, Any]:
    """Return a plain and a blockwise layer with the same weights."""
    plain = kind(6, 2, 4, 5, **options)
    blocks = kind(6, 2, 4, 5, attention="blockwise", **options)
    for layer in (plain, blocks):
        layer.build()
    blocks.set_weights(plain.get_weights())
    return plain, blocks


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("causal", [False, True])
def test_layer_equals_plain_attention(causal: bool, kind: Any) -> None:
    plain, blocks = _layers(kind)
    x = tf.constant(_normal(2, 7, 6))
    mask = tf.constant([[True] * 5 + [False] * 2, [True] * 7])[:, None, None, :]
    found = []
    with mock.patch.object(blockwise_attention, "BLOCK", 3):
        for layer in (plain, blocks):
            with tf.GradientTape() as tape:
                output = layer(x, x, mask, causal=causal)
                loss = tf.reduce_sum(output**2)
            found.append([output, *tape.gradient(loss, [w.value for w in layer.weights])])
    _assert_close(found[1], found[0])


def test_requested_weights_equal_those_of_plain_attention() -> None:
    plain, blocks = _layers()
    x = _normal(2, 7, 6)
    for one, other in zip(
        blocks(x, x, causal=True, return_weights=True),
        plain(x, x, causal=True, return_weights=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_dropout_of_the_layer_in_training_only_and_by_its_seed() -> None:
    _, layer = _layers(dropout=0.5)
    x = _normal(2, 7, 6)
    plain = layer(x, x)
    np.testing.assert_array_equal(layer(x, x, training=False), plain)
    assert (layer(x, x, training=True) != layer(x, x, training=True)).numpy().any()
    drawn = []
    for seed in ((1, 2), (1, 2), (1, 3)):
        with dropout_seed(tf.constant(seed)):
            drawn.append(layer(x, x, training=True).numpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.parametrize("kind", LAYERS)
def test_harness(kind: Any, check_layer: Callable[..., None]) -> None:
    def make(**options: Any) -> MultiHeadAttention:
        return kind(6, 2, 4, 5, 0.1, "blockwise", **options)

    def call(layer: Any, x: Any, mask: Any, **options: Any) -> Any:
        with mock.patch.object(blockwise_attention, "BLOCK", 2):
            return layer(x, x, mask, causal=True, **options)

    mask = tf.constant([[True, True, False], [True, True, True]])[:, None, None, :]
    check_layer(make, _normal(2, 3, 6), mask, call=call)


@pytest.mark.parametrize("positions", ["sinusoidal", "alibi"])
def test_network_equals_the_one_with_plain_attention(
    positions: str, tiny_config: Any, scatter: Any, tmp_path: Path
) -> None:
    none = {"dropout": 0.0, "attention_dropout": 0.0, "feed_forward_dropout": 0.0}
    models = [
        transformer.build(tiny_config(attention=attention, positions=positions, **none))
        for attention in ("plain", "blockwise")
    ]
    scatter(models[0].weights)
    models[0].save_weights(tmp_path / "plain.weights.h5")
    models[1].load_weights(tmp_path / "plain.weights.h5")
    rng = np.random.default_rng(0)
    inputs = {"source": rng.integers(4, 13, (2, 7)), "target": rng.integers(4, 13, (2, 6))}
    inputs["source"][1, 4:] = 0
    inputs["target"][0, 5:] = 0
    inputs = {name: tf.constant(ids, tf.int32) for name, ids in inputs.items()}
    found = []
    with mock.patch.object(blockwise_attention, "BLOCK", 3):
        for model in models:
            with tf.GradientTape() as tape:
                logits = model(inputs, training=True)
                loss = tf.reduce_sum(tf.math.log_softmax(logits)[..., 5])
            gradients = tape.gradient(loss, [w.value for w in model.weights])
            found.append([logits, *map(tf.convert_to_tensor, gradients)])
    _assert_close(found[1], found[0])
