"""Small SavedModels that a server would refuse, each for one reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.errors import UserError
from keras_transformer.serving.saved_model import lint

TEXTS = tf.TensorSpec([None], tf.string, name="text")
Results = dict[str, tf.Tensor]


class Small(tf.Module):
    """One variable, and a signature that counts with it the texts that are not empty."""

    def __init__(self, outputs: Callable[..., Results] | None = None, spec: Any = TEXTS) -> None:
        super().__init__()
        self.weight = tf.Variable([2.0, 3.0, 5.0])

        @tf.function(input_signature=[spec])
        def ask(text: tf.Tensor) -> Results:
            numbers = filled(text)[:, None] * self.weight  # (B, 3)
            return {"numbers": numbers} | (outputs(text, numbers) if outputs else {})

        self.ask = ask


def filled(text: tf.Tensor) -> tf.Tensor:
    """1 for each text that is not empty, 0 for others."""
    return tf.cast(text != "", tf.float32)


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def saved(module: tf.Module, signatures: Any = None) -> Path:
        tf.saved_model.save(module, str(tmp_path / "1"), signatures or {lint.DEFAULT: module.ask})
        return tmp_path / "1"

    return saved


@pytest.fixture
def findings(save: Callable[..., Path]) -> Callable[..., list[str]]:
    """Return findings in a SavedModel, without names of functions and nodes."""

    def found(*arguments: Any) -> list[str]:
        return [_brief(finding) for finding in lint.inspect(save(*arguments))]

    return found


def _brief(finding: lint.Finding) -> str:
    where = finding.where.partition(" __inference_")[0]
    return f"{where}: {finding.what}"


def test_a_valid_export_passes(save):
    text = lambda text, numbers: {"text": tf.strings.strip(text), "any": text != ""}  # noqa: E731
    directory = save(Small(text))

    assert lint.check(directory) is None


def test_message(save):
    directory = save(Small(lambda text, numbers: {"a": tf.size(text), "b_bytes": text}))

    with pytest.raises(lint.LintError) as error:
        lint.check(directory)
    assert isinstance(error.value, UserError)
    assert str(error.value).splitlines() == [
        f"{directory}: expected a model that TensorFlow Serving can run, got",
        "  signature serving_default, output a: a scalar; the first dimension must be the batch",
        "  signature serving_default, output b_bytes: text under a name in _bytes; "
        "REST sends it as base64",
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda text, numbers: {"a": tf.cast(numbers, tf.bfloat16)}, "a: type bfloat16"),
        (lambda text, numbers: {"a": tf.cast(numbers, tf.float16)}, "a: type float16"),
        (lambda text, numbers: {"a": tf.cast(numbers, tf.uint8)}, "a: type uint8"),
        (lambda text, numbers: {"a": tf.reduce_sum(numbers)}, "a: a scalar"),
        (lambda text, numbers: {"a": numbers[:1]}, None),  # slices have an unknown size
        (lambda text, numbers: {"a": tf.constant([1, 2])}, "a: first dimension 2"),
        (lambda text, numbers: {"a": tf.reshape(numbers, tf.shape(text))}, None),
        (
            lambda text, numbers: {"a": tf.reshape(numbers, tf.cast(numbers[0], tf.int32))},
            None,  # of rank 3
        ),
        (lambda text, numbers: {"a_bytes": text}, "a_bytes: text under a name in _bytes"),
        (lambda text, numbers: {"size_bytes": numbers}, None),  # only text becomes base64
    ],
)
def test_outputs_that_rest_cannot_carry(findings, answer, expected):
    place = "signature serving_default, output "
    assert findings(Small(answer)) == ([place + expected] if expected else [])


def test_an_output_of_unknown_rank(findings):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="numbers")])
    def double(numbers):
        return {"a": numbers * 2.0}

    module = tf.Module()
    module.double = double
    assert findings(module, {lint.DEFAULT: double}) == [
        "signature serving_default, input numbers: unknown rank",
        "signature serving_default, output a: unknown rank",
    ]


def test_a_batch_of_fixed_size(findings):
    assert findings(Small(spec=tf.TensorSpec([1], tf.string, name="text"))) == [
        "signature serving_default, input text: first dimension 1",
        "signature serving_default, output numbers: first dimension 1",
    ]


def test_a_sparse_output(findings):
    def answer(text, numbers):
        return {"a": tf.sparse.from_dense(numbers)}

    place = "signature serving_default, output a: not a dense tensor"
    assert place in findings(Small(answer))


def test_no_default_signature(findings):
    module = Small()
    assert findings(module, {"translate": module.ask}) == ["signatures: translate"]


def test_keras_layers_tracked_by_a_module(findings):
    class Tracking(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = keras.layers.Dense(2, name="dense")
            self.layer.build([None, 1])

        @tf.function(input_signature=[TEXTS])
        def ask(self, text):
            return {"a": self.layer(filled(text)[:, None])}

    assert findings(Tracking()) == [
        "variable dense/bias: read, but not in the checkpoint",
        "variable dense/kernel: read, but not in the checkpoint",
        "variable Variable: in the checkpoint",
        "variable Variable_1: in the checkpoint",
    ]


def test_keras_layers_tracked_beside_their_variables_are_stored_twice(findings):
    class Doubled(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = keras.layers.Dense(2, use_bias=False, name="dense")
            self.layer.build([None, 1])
            self.raw = [weight.value for weight in self.layer.weights]

        @tf.function(input_signature=[TEXTS])
        def ask(self, text):
            return {"a": self.layer(filled(text)[:, None])}

    assert findings(Doubled()) == ["variable Variable: in the checkpoint"]


def test_an_optimizer(findings):
    module = Small()
    module.optimizer = tf.optimizers.Adam()
    module.optimizer.build([keras.Variable(np.ones(3), name="weight")])
    found = findings(module)
    # Iteration, learning rate, two moments of the one weight, and that weight.
    assert len(found) == 5
    assert all(finding.endswith(": in the checkpoint") for finding in found)


def test_stored_tensors_that_are_no_variables(findings):
    module = Small()
    module.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.0)
    assert "variables: 3 tensors for 1 variables" in findings(module)


def _sliced(text: tf.Tensor, numbers: tf.Tensor) -> Results:
    return {"a": keras.ops.slice_update(numbers, (0, 0), tf.ones([1, 1]))}


def _python(text: tf.Tensor, numbers: tf.Tensor) -> Results:
    return {"a": tf.ensure_shape(tf.py_function(lambda x: x, [numbers], tf.float32), [None, 3])}


def _reading(text: tf.Tensor, numbers: tf.Tensor) -> Results:
    return {"a": tf.map_fn(tf.io.read_file, text)}


def _restoring(text: tf.Tensor, numbers: tf.Tensor) -> Results:
    (found,) = tf.raw_ops.RestoreV2(
        prefix="variables", tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]
    )
    return {"a": numbers + tf.reshape(found, [1, 1])}


def _printing(text: tf.Tensor, numbers: tf.Tensor) -> Results:
    tf.print(text)
    return {"a": text}


def _looped(text: tf.Tensor, numbers: tf.Tensor) -> Results:
    """An operation inside a loop's body, which is a function of its own."""
    result = tf.while_loop(
        lambda step, total: step < 3,
        lambda step, total: (step + 1, tf.math.erfinv(total)),
        (0, numbers),
    )
    return {"a": result[1]}


@pytest.mark.parametrize(
    ("answer", "operation", "why"),
    [
        (_sliced, "XlaDynamicUpdateSlice", "without XLA"),
        (_python, "EagerPyFunc", "no Python"),
        (_reading, "ReadFile", "no files but the version folder"),
        (_restoring, "RestoreV2", "may not read or write files"),
        (_printing, "PrintV2", "not among the operations tested"),
        (_looped, "Erfinv", "not among the operations tested"),
    ],
)
def test_operations_that_a_server_lacks(save, answer, operation, why):
    found = {finding.what: finding.why for finding in lint.inspect(save(Small(answer)))}
    assert why in found[f"operation {operation}"]


def test_functions_for_xla(findings):
    doubled = tf.function(lambda numbers: numbers + numbers, jit_compile=True)
    found = findings(Small(lambda text, numbers: {"a": doubled(numbers)}))
    assert found == ["function: jit_compile=True"]


def test_assets_must_be_there(save, tmp_path):
    class WithAsset(Small):
        def __init__(self, path: Path) -> None:
            super().__init__()
            path.write_text("a", encoding="utf-8")
            self.asset = tf.saved_model.Asset(str(path))

    directory = save(WithAsset(tmp_path / "words.txt"))
    assert list(lint.inspect(directory)) == []
    (directory / "assets" / "words.txt").unlink()
    assert [_brief(finding) for finding in lint.inspect(directory)] == [
        "assets/words.txt: no such file"
    ]


def _retag(directory: Path, tags: list[list[str]]) -> None:
    file = directory / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    (graph,) = model.meta_graphs
    del model.meta_graphs[:]
    for names in tags:
        copy = model.meta_graphs.add()
        copy.CopyFrom(graph)
        copy.meta_info_def.tags[:] = names
    file.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("tags", [[], [["train"]], [["serve", "gpu"]], [["serve"], ["serve"]]])
def test_exactly_one_graph_has_the_serving_tag(save, tags):
    directory = save(Small())
    _retag(directory, tags)
    (finding,) = lint.inspect(directory)
    assert finding.what == f"graphs tagged {tags}"


def test_a_folder_without_a_model_or_its_variables(save, tmp_path):
    assert [finding.where for finding in lint.inspect(tmp_path)] == ["saved_model.pb"]
    directory = save(Small())
    (directory / "variables" / "variables.index").unlink()
    (finding,) = lint.inspect(directory)
    assert finding.where == "variables"
    assert "expected a checkpoint" in finding.what
    (directory / "saved_model.pb").write_bytes(b"\xff\xff")
    assert [finding.where for finding in lint.inspect(directory)] == ["saved_model.pb"]
