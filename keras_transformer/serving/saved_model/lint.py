"""Static checks of a SavedModel for TensorFlow Serving.

The checks read the graph, the signatures and the checkpoint's table of contents; nothing is run.
A model that loads in Python may still fail in a server: a server has no Python, no XLA, no files
outside the version folder, and finds variables by the names of their handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_transformer.compat.tensorflow import saved_model_pb2
from keras_transformer.errors import UserError
from keras_transformer.serving.saved_model.operations import TESTED_OPERATIONS

TAG = tf.saved_model.SERVING
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

REST_TYPES = (tf.string, tf.bool, tf.int32, tf.int64, tf.float32, tf.float64)
"""Types that TensorFlow Serving's REST can read and write as JSON."""

# Called by the server once after loading, never by a client.
_INITIALIZER = "__saved_model_init_op"

_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
# Allowed only in the functions that save and restore variables.
_CHECKPOINT = frozenset({"RestoreV2", "SaveV2", "MergeV2Checkpoints"})
_FILES = frozenset(
    {
        *("ReadFile", "WriteFile", "MatchingFiles", "WholeFileReaderV2", "TextLineReaderV2"),
        *("TFRecordReaderV2", "FixedLengthRecordReaderV2", "TextLineDataset"),
        *("TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDatasetV2"),
    }
)

# The checkpoint's object graph, not a variable.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class LintError(UserError):
    """A SavedModel that TensorFlow Serving would refuse; the message lists every finding."""


class Finding(NamedTuple):
    """One reason why a server would refuse a SavedModel."""

    where: str
    """Place in the SavedModel, such as ``signature nbest, output scores``."""
    what: str
    """Offending item."""
    why: str
    """Reason why it is not allowed."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.why}"


def check(directory: Path) -> None:
    """Refuse a SavedModel that TensorFlow Serving would refuse.

    Args:
        directory: The version folder, which holds ``saved_model.pb``.

    Raises:
        LintError: It has findings; the message lists them all.
    """
    findings = list(inspect(directory))
    if findings:
        listed = "\n".join(f"  {finding}" for finding in findings)
        raise LintError(
            f"{directory}: expected a model that TensorFlow Serving can run, got\n{listed}"
        )


def inspect(directory: Path) -> Iterator[Finding]:
    """Yield every reason why TensorFlow Serving would refuse a SavedModel.

    Args:
        directory: The version folder, which holds ``saved_model.pb``.
    """
    try:
        model = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    except (OSError, DecodeError) as error:
        yield Finding("saved_model.pb", str(error), "nothing can be loaded")
        return
    tagged = [graph for graph in model.meta_graphs if list(graph.meta_info_def.tags) == [TAG]]
    if len(tagged) != 1:
        tags = [list(graph.meta_info_def.tags) for graph in model.meta_graphs]
        yield Finding("saved_model.pb", f"graphs tagged {tags}", f"one must be tagged {TAG} alone")
        return
    graph = _Graph(tagged[0])
    yield from _operations(graph)
    yield from _signatures(graph)
    yield from _variables(graph, directory)
    for asset in graph.meta.asset_file_def:
        if not (directory / "assets" / asset.filename).is_file():
            yield Finding(f"assets/{asset.filename}", "no such file", "the graph reads it")


class _Graph:
    """A MetaGraphDef with its nodes and functions by name."""

    def __init__(self, meta: Any) -> None:
        self.meta = meta
        self.nodes = {node.name: node for node in meta.graph_def.node}
        self.functions = {item.signature.name: item for item in meta.graph_def.library.function}
        self.signatures = {
            key: signature for key, signature in meta.signature_def.items() if key != _INITIALIZER
        }

    def ancestors(self, names: Iterable[str]) -> list[Any]:
        """Return these nodes and all nodes that they depend on."""
        found: dict[str, Any] = {}
        waiting = [_node(name) for name in names]
        while waiting:
            name = waiting.pop()
            if name in self.nodes and name not in found:
                found[name] = self.nodes[name]
                waiting += [_node(tensor) for tensor in found[name].input]
        return list(found.values())

    def signature_nodes(self) -> list[Any]:
        """Return the nodes that run when a signature is called."""
        outputs = (out.name for item in self.signatures.values() for out in item.outputs.values())
        return self.ancestors(outputs)

    def called(self, nodes: Iterable[Any]) -> set[str]:
        """Return the names of all functions that nodes call, directly or indirectly."""
        found: set[str] = set()
        waiting = list(nodes)
        while waiting:
            for name in _calls(waiting.pop()):
                if name in self.functions and name not in found:
                    found.add(name)
                    waiting += self.functions[name].node_def
        return found


def _node(tensor: str) -> str:
    """Return the node name in ``name:0`` or in the control input ``^name``."""
    return tensor.removeprefix("^").partition(":")[0]


def _calls(node: Any) -> Iterator[str]:
    """Yield the names of all functions that a node may call, among names of other things."""
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)


def _operations(graph: _Graph) -> Iterator[Finding]:
    """Yield operations that a server lacks or forbids."""
    in_signatures = graph.called(graph.signature_nodes())
    graphs = {"the graph": list(graph.nodes.values())}
    graphs |= {f"function {name}": list(item.node_def) for name, item in graph.functions.items()}
    seen = set()
    for where, nodes in graphs.items():
        for node in nodes:
            if node.op in _CHECKPOINT and where.removeprefix("function ") in in_signatures:
                why = "a signature may not read or write files"
            elif node.op in TESTED_OPERATIONS or node.op in graph.functions:
                continue
            else:
                why = _refusal(node.op)
            if node.op not in seen:  # one finding is enough
                yield Finding(f"{where}, node {node.name}", f"operation {node.op}", why)
            seen.add(node.op)
    for name, function in graph.functions.items():
        if function.attr["_XlaMustCompile"].b:
            yield Finding(f"function {name}", "jit_compile=True", "servers run without XLA")


def _refusal(operation: str) -> str:
    if operation.startswith("Xla"):
        return "servers run without XLA"
    if operation in _PYTHON:
        return "servers have no Python"
    if operation in _FILES:
        return "servers have no files but the version folder"
    return "not among the operations tested in TensorFlow 2.20 and 2.21 without Python"


def _signatures(graph: _Graph) -> Iterator[Finding]:
    """Yield inputs and outputs that REST or the server's batching cannot handle."""
    if DEFAULT not in graph.signatures:
        found = ", ".join(sorted(graph.signatures)) or "none"
        yield Finding("signatures", found, f"requests without a name call {DEFAULT}")
    for key, signature in sorted(graph.signatures.items()):
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for name, tensor in sorted(tensors.items()):
                where = f"signature {key}, {side} {name}"
                for what, why in _refusals(tensor):
                    yield Finding(where, what, why)
                text = tensor.dtype == tf.string.as_datatype_enum
                if side == "output" and text and name.endswith("_bytes"):
                    yield Finding(where, "text under a name in _bytes", "REST sends it as base64")


def _refusals(tensor: Any) -> Iterator[tuple[str, str]]:
    """Yield the faults of a signature's tensor with their reasons."""
    if tensor.WhichOneof("encoding") != "name":
        yield "not a dense tensor", "REST has no form for it"
        return
    dtype, shape = tf.as_dtype(tensor.dtype), tensor.tensor_shape
    if dtype not in REST_TYPES:
        names = ", ".join(item.name for item in REST_TYPES)
        yield f"type {dtype.name}", f"REST carries {names}"
    if shape.unknown_rank:
        yield "unknown rank", "the first dimension must be the batch"
    elif not shape.dim:
        yield "a scalar", "the first dimension must be the batch"
    elif shape.dim[0].size != -1:
        yield f"first dimension {shape.dim[0].size}", "the batch can have any size"


def _variables(graph: _Graph, directory: Path) -> Iterator[Finding]:
    """Yield variables that are read but not restored, or restored but never read.

    A Keras variable tracked by a tf.Module is read but not restored: the checkpoint restores
    another handle than the one that the functions read. Python repairs that, a server does not.
    """
    read = _handles(graph.signature_nodes())
    restored = _handles(graph.ancestors([graph.meta.saver_def.restore_op_name]))
    for name in sorted(read - restored):
        yield Finding(f"variable {name}", "read, but not in the checkpoint", "it has no value")
    for name in sorted(restored - read):
        yield Finding(f"variable {name}", "in the checkpoint", "no signature reads it")
    prefix = directory / "variables" / "variables"
    try:
        stored = len({name for name, _ in tf.train.list_variables(str(prefix))} - {_OBJECT_GRAPH})
    except (tf.errors.OpError, ValueError) as error:
        if restored:
            yield Finding(
                "variables",
                f"{prefix}: expected a checkpoint: {error}",
                "variables cannot be restored",
            )
        return
    if stored != len(restored):
        yield Finding(
            "variables", f"{stored} tensors for {len(restored)} variables", "all must be variables"
        )


def _handles(nodes: Iterable[Any]) -> set[str]:
    """Return the names under which a server keeps the variables among these nodes."""
    return {
        node.attr["shared_name"].s.decode() or node.name
        for node in nodes
        if node.op == "VarHandleOp"
    }
