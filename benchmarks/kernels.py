"""Cost of each kernel beside the plain Keras or TensorFlow way of the same computation.

  python benchmarks/kernels.py
  python benchmarks/kernels.py --cases dropout linear --repeats 50

Each case is forward and backward pass in one graph, for the features of about 4,096 tokens:
64 sentences of 64 tokens, of the width of `small` (256) or of the base model (512). The cases:

- dropout: `keras.layers.Dropout` and `kernels.dropout.Dropout`, rate 0.1, (64, 64, 512).
- normalization: `keras.layers.LayerNormalization` and `kernels.normalization`, (64, 64, 512).
- linear: x @ W batched over sentences, which is `keras.layers.Dense`, and `kernels.linear`, for
  (64, 64, 512) and W (512, 2048).
- loss: projection, then `training.loss`, and `training.fused_loss`: 64 sentences of 64 tokens,
  a third of them padding, D 256 and a vocabulary of 10,000.
- attention: plain and blockwise, causal, 2 sentences of 1,024 tokens, 8 heads of 64.
- checkpointing: a stack of 6 encoder layers (d_model 256, d_ff 1024) on 64 sentences of 64
  tokens, without and with gradient checkpointing.

Both sides of a case run in turn. A row has the medians of --repeats runs, by the clock and of
all processors together, which counts where the machine has other work; and the memory that a
run needs on top of its inputs, in a process of its own (Linux, /proc/self/clear_refs).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

Run = Callable[[], Any]
MIB = 1024


def features(*shape: int) -> Any:
    """Random features."""
    import tensorflow as tf

    return tf.random.stateless_normal(shape, [1, 2])


def with_gradient(call: Callable[[Any], Any], weights: Any, x: Any, shape: Any = None) -> Run:
    """Forward and backward pass of a function in one graph, traced already.

    Args:
        call: The function.
        weights: Variables and tensors that get a gradient, besides x.
        x: Its input.
        shape: Of its output; None: that of x.
    """
    import tensorflow as tf

    @tf.function(autograph=False)
    def step(x: Any, upstream: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        return tape.gradient(y, [x, *weights], upstream)

    upstream = features(*(x.shape if shape is None else shape))
    concrete = step.get_concrete_function(x, upstream)
    return lambda: concrete(x, upstream)


def dropout() -> dict[str, Run]:
    """A random float for each element, or 8 bits."""
    import keras

    from keras_transformer.model.kernels.dropout import Dropout

    x = features(64, 64, 512)
    layers = {"Keras": keras.layers.Dropout(0.1), "8 bits": Dropout(0.1)}
    return {
        name: with_gradient(lambda x, layer=layer: layer(x, training=True), [], x)
        for name, layer in layers.items()
    }


def normalization() -> dict[str, Run]:
    """TensorFlow's gradient, or one derived by hand."""
    import keras

    from keras_transformer.model.kernels.normalization import LayerNormalization

    x = features(64, 64, 512)
    layers = {"Keras": keras.layers.LayerNormalization(), "by hand": LayerNormalization()}
    runs = {}
    for name, layer in layers.items():
        layer.build(x.shape)
        weights = [weight.value for weight in layer.weights]
        options = {} if name == "Keras" else {"training": True}
        runs[name] = with_gradient(
            lambda x, layer=layer, options=options: layer(x, **options), weights, x
        )
    return runs


def linear() -> dict[str, Run]:
    """A batched product, or a flat one."""
    import keras
    import tensorflow as tf

    from keras_transformer.model.kernels.linear import project

    x = features(64, 64, 512)
    dense = keras.layers.Dense(2048)
    dense.build(x.shape)
    kernel, bias = (weight.value for weight in dense.weights)
    shape = 64, 64, 2048

    def batched(x: Any) -> Any:
        return tf.matmul(x, kernel) + bias

    return {
        "Keras": with_gradient(dense, [kernel, bias], x, shape),
        "batched": with_gradient(batched, [kernel, bias], x, shape),
        "flat": with_gradient(lambda x: project(x, kernel, bias), [kernel, bias], x, shape),
    }


def loss() -> dict[str, Run]:
    """Projection and loss one after the other, or fused."""
    import tensorflow as tf

    from keras_transformer.training.fused_loss import projected_loss
    from keras_transformer.training.loss import label_smoothed_cross_entropy

    x, matrix = features(64, 64, 256), tf.Variable(features(10_000, 256) / 16.0)
    labels = tf.random.stateless_uniform([64, 64], [3, 4], 4, 10_000, tf.int32)
    labels *= tf.sequence_mask(tf.range(64) * 2 // 3 + 22, 64, tf.int32)

    def plain(x: Any) -> Any:
        logits = tf.matmul(tf.reshape(x, [-1, 256]), matrix, transpose_b=True)
        logits = tf.reshape(logits, [64, 64, -1])
        return label_smoothed_cross_entropy(logits, labels, 0.1).loss

    def fused(x: Any) -> Any:
        return projected_loss(x, matrix, labels, 0.1).loss

    return {
        "one after the other": with_gradient(plain, [matrix], x, ()),
        "fused": with_gradient(fused, [matrix], x, ()),
    }


def attention() -> dict[str, Run]:
    """Plain attention, or blockwise."""
    from keras_transformer.model.attention import MultiHeadAttention

    x = features(2, 1024, 512)
    runs = {}
    for kind in ("plain", "blockwise"):
        layer = MultiHeadAttention(512, 8, 64, 64, 0.1, attention=kind)
        layer.build()
        weights = [weight.value for weight in layer.weights]
        runs[kind] = with_gradient(
            lambda x, layer=layer: layer(x, x, causal=True, training=True), weights, x
        )
    return runs


def checkpointing() -> dict[str, Run]:
    """Activations kept, or computed again."""
    import tensorflow as tf

    from keras_transformer.config import ModelConfig
    from keras_transformer.model.encoder import Encoder

    x = features(64, 64, 256)
    mask = tf.ones([64, 1, 1, 64], tf.bool)
    config = ModelConfig(d_model=256, d_ff=1024)
    runs = {}
    for name, again in (("kept", False), ("computed again", True)):
        encoder = Encoder(config, again)
        encoder.build(x.shape)
        weights = [weight.value for weight in encoder.weights]
        runs[name] = with_gradient(
            lambda x, encoder=encoder: encoder(x, mask, training=True), weights, x
        )
    return runs


CASES: dict[str, Callable[[], dict[str, Run]]] = {
    "dropout": dropout,
    "normalization": normalization,
    "linear": linear,
    "loss": loss,
    "attention": attention,
    "checkpointing": checkpointing,
}


def status(key: str) -> float:
    """A line of /proc/self/status, in MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / MIB for line in file if line.startswith(key))


def times(case: str, repeats: int) -> dict[str, list[float]]:
    """Milliseconds by the clock and of all processors, medians, for each side of a case."""
    runs = CASES[case]()
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for number in range(repeats + 3):
        for name, run in runs.items():
            started, used = time.perf_counter(), time.process_time()
            run()
            took = time.perf_counter() - started, time.process_time() - used
            if number >= 3:
                measured[name].append(took)
    return {
        name: [1000 * statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in measured.items()
    }


def memory(case: str, name: str) -> float:
    """MiB that the first run needs on top of what there was before it."""
    run = CASES[case]()[name]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    run()
    return status("VmHWM") - before


def in_process(*arguments: str) -> Any:
    """Return the JSON that this script prints in its own process."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: failed\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", choices=CASES, nargs="+", default=list(CASES), metavar="CASE")
    parser.add_argument("--repeats", type=int, default=20, help="timed runs (default: 20)")
    parser.add_argument("--times", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.times:
        print(json.dumps(times(arguments.times, arguments.repeats)))
        return
    if arguments.memory:
        print(json.dumps(memory(*arguments.memory)))
        return
    print("| | | ms | processor ms | MiB |\n|---|---|---|---|---|")
    for case in arguments.cases:
        rows = in_process("--times", case, "--repeats", str(arguments.repeats))
        for name, (clock, processors) in rows.items():
            size = in_process("--memory", case, name)
            print(f"| {case} | {name} | {clock:.1f} | {processors:.1f} | {size:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
