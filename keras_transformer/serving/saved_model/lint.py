"""What TF Serving would refuse, found before a version folder is put in place.

A SavedModel is read here, never run: its graph, its signatures, and the names and sizes in
its checkpoint. A server may refuse what loads in Python: it has no Python, no XLA and no files
but the version folder, and it finds variables by the names of their handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_transformer.compat.tensorflow import saved_model_pb2
from keras_transformer.errors import UserError
from keras_transformer.serving.saved_model.operations import TRIED

TAG = tf.saved_model.SERVING
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

REST_TYPES = (tf.string, tf.bool, tf.int32, tf.int64, tf.float32, tf.float64)
"""Types that inputs and outputs may have: JSON carries them in TF Serving's REST."""

# What a server calls once after loading; no client can.
_INITIALIZER = "__saved_model_init_op"

_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
# Allowed where variables are saved and restored, and nowhere else.
_CHECKPOINT = frozenset({"RestoreV2", "SaveV2", "MergeV2Checkpoints"})
_FILES = frozenset(
    {
        *("ReadFile", "WriteFile", "MatchingFiles", "WholeFileReaderV2", "TextLineReaderV2"),
        *("TFRecordReaderV2", "FixedLengthRecordReaderV2", "TextLineDataset"),
        *("TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDatasetV2"),
    }
)

# The checkpoint's own entry, which is no variable.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class LintError(UserError):
    """A SavedModel that TF Serving would refuse; the message lists every finding."""


class Finding(NamedTuple):
    """One thing that a server would refuse."""

    where: str
    """The place in the SavedModel, such as ``signature nbest, output scores``."""
    what: str
    """What is there."""
    why: str
    """Why it may not be."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.why}"


def check(directory: Path) -> None:
    """Refuse a SavedModel that TF Serving would refuse.

    Args:
        directory: The version folder, which holds ``saved_model.pb``.

    Raises:
        LintError: With every finding: what, where, and why it may not be.
    """
    findings = list(inspect(directory))
    if findings:
        listed = "\n".join(f"  {finding}" for finding in findings)
        raise LintError(f"{directory}: expected what TF Serving can load and run, got\n{listed}")


def inspect(directory: Path) -> Iterator[Finding]:
    """Everything in a SavedModel that TF Serving would refuse.

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
    """A MetaGraphDef: the graph, and what each of its nodes is made from."""

    def __init__(self, meta: Any) -> None:
        self.meta = meta
        self.nodes = {node.name: node for node in meta.graph_def.node}
        self.functions = {item.signature.name: item for item in meta.graph_def.library.function}
        self.signatures = {
            key: signature for key, signature in meta.signature_def.items() if key != _INITIALIZER
        }

    def behind(self, names: Iterable[str]) -> list[Any]:
        """The nodes that must run for these, they themselves included."""
        found: dict[str, Any] = {}
        waiting = [_node(name) for name in names]
        while waiting:
            name = waiting.pop()
            if name in self.nodes and name not in found:
                found[name] = self.nodes[name]
                waiting += [_node(given) for given in found[name].input]
        return list(found.values())

    def answering(self) -> list[Any]:
        """The nodes that run when a signature is called."""
        outputs = (out.name for item in self.signatures.values() for out in item.outputs.values())
        return self.behind(outputs)

    def called(self, nodes: Iterable[Any]) -> set[str]:
        """Names of the functions that nodes call, and those functions, and so on."""
        found: set[str] = set()
        waiting = list(nodes)
        while waiting:
            for name in _calls(waiting.pop()):
                if name in self.functions and name not in found:
                    found.add(name)
                    waiting += self.functions[name].node_def
        return found


def _node(tensor: str) -> str:
    """The node of a tensor ``name:0`` or of a control input ``^name``."""
    return tensor.removeprefix("^").partition(":")[0]


def _calls(node: Any) -> Iterator[str]:
    """Names of functions that a node may call; not all need be functions."""
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)


def _operations(graph: _Graph) -> Iterator[Finding]:
    """Operations that a server lacks or forbids."""
    answering = graph.called(graph.answering())
    rooms = {"the graph": list(graph.nodes.values())}
    rooms |= {f"function {name}": list(item.node_def) for name, item in graph.functions.items()}
    seen = set()
    for room, nodes in rooms.items():
        for node in nodes:
            if node.op in _CHECKPOINT and room.removeprefix("function ") in answering:
                why = "a signature may not read or write files"
            elif node.op in TRIED or node.op in graph.functions:
                continue
            else:
                why = _refusal(node.op)
            if node.op not in seen:  # the first place is enough to find it
                yield Finding(f"{room}, node {node.name}", f"operation {node.op}", why)
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
    return "not among the operations that were tried in TensorFlow 2.20 and 2.21 without Python"


def _signatures(graph: _Graph) -> Iterator[Finding]:
    """Inputs and outputs that REST or the server's batching cannot carry."""
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
    """What is wrong with a signature's tensor, and why."""
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
    """Variables that are read but never filled, or filled but never read.

    A Keras variable tracked by a tf.Module is the first: the checkpoint fills another handle
    than the one that the functions read. Python mends that when it loads; a server does not.
    """
    read = _handles(graph.answering())
    filled = _handles(graph.behind([graph.meta.saver_def.restore_op_name]))
    for name in sorted(read - filled):
        yield Finding(f"variable {name}", "read, but not in the checkpoint", "it has no value")
    for name in sorted(filled - read):
        yield Finding(f"variable {name}", "in the checkpoint", "no signature reads it")
    prefix = directory / "variables" / "variables"
    try:
        stored = len({name for name, _ in tf.train.list_variables(str(prefix))} - {_OBJECTS})
    except (tf.errors.OpError, ValueError) as error:
        if filled:
            yield Finding(
                "variables",
                f"{prefix}: expected a checkpoint: {error}",
                "variables cannot be filled",
            )
        return
    if stored != len(filled):
        yield Finding(
            "variables", f"{stored} tensors for {len(filled)} variables", "all must be variables"
        )


def _handles(nodes: Iterable[Any]) -> set[str]:
    """Names under which a server keeps the variables among these nodes."""
    return {
        node.attr["shared_name"].s.decode() or node.name
        for node in nodes
        if node.op == "VarHandleOp"
    }
