"""Size reduction of a SavedModel's graph.

Most bytes of a traced graph are name scopes, spelled out in every node, repeated constants and
shapes, and debug information. Removing them changes no result.
"""

from __future__ import annotations

import hashlib
import itertools
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.compat.tensorflow import saved_model_pb2, types_pb2

# Operations whose duplicates can share one node, since they depend on their inputs only.
# TensorFlow merges costlier operations itself when it loads a graph.
_MERGED = {"Const", "Shape", "StridedSlice", "Pack", "Reshape", "Cast"}

# Creates a tokenizer from the model in its attribute; the node names the resource.
_TOKENIZER = "SentencepieceOp"

_LETTERS = string.ascii_lowercase + string.digits


def compact(directory: Path) -> None:
    """Shorten node names and merge duplicate nodes in a SavedModel's functions, in place.

    Names that are looked up from outside stay: those of functions and their results, of the
    arguments of signatures, and of all nodes outside functions.

    Args:
        directory: The SavedModel.
    """
    file = directory / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for graph in saved.meta_graphs:
        _share_tokenizers(graph.graph_def)
        for function in graph.graph_def.library.function:
            while _merge_duplicates(function):
                pass
            _shorten(function)
    file.write_bytes(saved.SerializeToString(deterministic=True))


def _share_tokenizers(graph: Any) -> None:
    """Keep one copy of each tokenizer's model.

    TensorFlow stores two: one in a function that creates the tokenizer in Python, one in a node
    of the main graph for the C++ session. The node becomes a call of that function.
    """
    creators = {
        node.attr["model"].s: function.signature.name
        for function in graph.library.function
        for node in function.node_def
        if node.op == _TOKENIZER
    }
    for node in graph.node:
        if node.op == _TOKENIZER and node.attr["model"].s in creators:
            creator = creators[node.attr["model"].s]
            node.attr.clear()
            node.op = "StatefulPartitionedCall"
            node.attr["f"].func.name = creator
            node.attr["Tin"].list.SetInParent()
            node.attr["Tout"].list.type.append(types_pb2.DT_RESOURCE)


def _merge_duplicates(function: Any) -> bool:
    """Merge duplicate nodes of a function; return whether there were any."""
    kept: dict[bytes, str] = {}
    replacement: dict[str, str] = {}
    nodes = []
    for node in function.node_def:
        if node.op in _MERGED:
            key_node = type(node)()
            key_node.CopyFrom(node)
            _strip(key_node)
            key_node.ClearField("name")
            key = key_node.SerializeToString(deterministic=True)
            replacement[node.name] = kept.setdefault(key, node.name)
            if replacement[node.name] != node.name:
                continue
        nodes.append(node)
    merged = len(nodes) < len(function.node_def)
    if merged:
        # `del` frees the nodes with the list.
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del function.node_def[:]
        function.node_def.extend(copies)
        _rename(function, replacement)
    return merged


def _strip(node: Any) -> None:
    """Drop debug information, inferred types and shapes: loaders recompute them."""
    node.ClearField("experimental_debug_info")
    node.ClearField("experimental_type")
    node.attr.pop("_output_shapes", None)
    # Colocation with another node: everything runs on one device.
    node.attr.pop("_class", None)


def _shorten(function: Any) -> None:
    """Give nodes and arguments of a function short names."""
    arguments = function.signature.input_arg
    keeps_arguments = "signature_wrapper" in function.signature.name
    taken = {argument.name for argument in arguments} if keeps_arguments else set()
    free = (name for name in _names() if name not in taken)
    for index, argument in enumerate(arguments):
        if argument.type == types_pb2.DT_RESOURCE:
            function.arg_attr.pop(index, None)
    items = [*([] if keeps_arguments else arguments), *function.node_def]
    short = {item.name: _resource_name(item) or next(free) for item in items}
    for item in items:
        item.name = short[item.name]
    for node in function.node_def:
        _strip(node)
    _rename(function, short)


def _resource_name(item: Any) -> str | None:
    """Return the name of a node that creates a tokenizer, None for other nodes.

    Python merges tokenizers that are created under the same name, even those of two versions in
    one process. So the name is a hash of the tokenizer's model.
    """
    if getattr(item, "op", "") != _TOKENIZER:
        return None
    return f"sentencepiece_{hashlib.sha256(item.attr['model'].s).hexdigest()[:16]}"


def _rename(function: Any, names: dict[str, str]) -> None:
    """Update every reference to renamed nodes."""

    def renamed(reference: str) -> str:
        """Rename the node in ``name``, ``name:output:index`` or ``^name``."""
        control = "^" if reference.startswith("^") else ""
        name, colon, rest = reference.removeprefix("^").partition(":")
        return f"{control}{names.get(name, name)}{colon}{rest}"

    for node in function.node_def:
        node.input[:] = [renamed(reference) for reference in node.input]
    for results in (function.ret, function.control_ret):
        for key, reference in dict(results).items():
            results[key] = renamed(reference)


def _names() -> Iterator[str]:
    """Yield a, b, ..., z, aa, ab, ...; TensorFlow requires a letter at the beginning."""
    yield from string.ascii_lowercase
    for size in itertools.count(1):
        for first in string.ascii_lowercase:
            yield from (first + "".join(rest) for rest in itertools.product(_LETTERS, repeat=size))
