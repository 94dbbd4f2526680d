"""Smaller graphs with the same results, and tokenizers that stay distinct."""

from __future__ import annotations

import shutil

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.config import DataConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.serving.saved_model.compact import compact


class Numbers(tf.Module):
    """Constants, shapes, loops and branches."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable([[2.0, 0.0], [1.0, 3.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def run(self, x):
        for _ in range(3):
            x = tf.reshape(x, [tf.shape(x)[0], 2]) + tf.constant(1.0)
        total = tf.while_loop(
            lambda step, y: step < 4, lambda step, y: (step + 1, tf.matmul(y, self.weight)), (0, x)
        )[1]
        return {"total": tf.cond(tf.size(x) > 2, lambda: total, lambda: -total)}


def graph(folder):
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0].graph_def


def test_same_results_from_a_smaller_graph(tmp_path) -> None:
    module = Numbers()
    tf.saved_model.save(module, str(tmp_path), signatures=module.run)
    before = graph(tmp_path)
    compact(tmp_path)
    after = graph(tmp_path)
    assert after.ByteSize() < 0.6 * before.ByteSize()
    loaded = tf.saved_model.load(str(tmp_path))
    for x in ([[1.0, 2.0]], [[1.0, 2.0], [3.0, -4.0]]):
        expected = module.run(tf.constant(x))["total"]
        np.testing.assert_array_equal(
            loaded.signatures["serving_default"](x=tf.constant(x))["total"], expected
        )
        np.testing.assert_array_equal(loaded.run(tf.constant(x))["total"], expected)


def test_constants_are_kept_once_in_a_function(tmp_path) -> None:
    module = Numbers()
    tf.saved_model.save(module, str(tmp_path), signatures=module.run)
    compact(tmp_path)
    for function in graph(tmp_path).library.function:
        values = [
            node.attr["value"].SerializeToString()
            for node in function.node_def
            if node.op == "Const" and not node.input
        ]
        assert len(values) == len(set(values))
        assert all(len(node.name) <= 3 for node in function.node_def)


def tokenizer_of(words: str) -> Tokenizer:
    lines = [words] * 10
    return Tokenizer.train(lines, lines, DataConfig(vocabulary_size=320))


class Two(tf.Module):
    """Two tokenizers."""

    def __init__(self, first: Tokenizer, second: Tokenizer) -> None:
        super().__init__()
        self.first, self.second = first.source.graph(), second.source.graph()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def run(self, text):
        return {
            "first": self.first.tokenize(text).to_tensor(),
            "second": self.second.tokenize(text).to_tensor(),
        }


def test_two_tokenizers_stay_two(tmp_path) -> None:
    """In one SavedModel, and in two versions loaded by one process."""
    one, two = tokenizer_of("alpha beta gamma"), tokenizer_of("delta beta omega phi")
    text = tf.constant(["beta gamma omega"])
    modules = {"a": Two(one, two), "b": Two(two, one)}
    expected = {key: module.run(text) for key, module in modules.items()}
    loaded = {}
    for key, module in modules.items():
        folder = tmp_path / key
        tf.saved_model.save(module, str(folder), signatures=module.run)
        compact(folder)
        loaded[key] = tf.saved_model.load(str(folder))
    for key, module in loaded.items():
        for name, ids in module.run(text).items():
            assert ids.numpy().tolist() == expected[key][name].numpy().tolist()


def test_a_tokenizer_is_stored_once(tmp_path) -> None:
    one, two = tokenizer_of("alpha beta gamma"), tokenizer_of("delta beta omega phi")
    module = Two(one, two)
    tf.saved_model.save(module, str(tmp_path), signatures=module.run)
    compact(tmp_path)
    data = (tmp_path / "saved_model.pb").read_bytes()
    assert data.count(one.source.proto) == data.count(two.source.proto) == 1
    shutil.rmtree(tmp_path)
