"""Take out of a SavedModel's graph what only its makers would read.

Most of the bytes of a traced graph are the scopes in which its operations were made, spelled
out in every name, the same few constants and shapes a thousand times, and notes for debugging.
Nothing that is computed changes.
"""

from __future__ import annotations

import hashlib
import itertools
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.compat.tensorflow import saved_model_pb2, types_pb2

# Operations of which one gives what several alike would: each only depends on its inputs. The
# large ones are left to TensorFlow, which merges them too when it loads a graph.
_MERGED = {"Const", "Shape", "StridedSlice", "Pack", "Reshape", "Cast"}

# Makes a tokenizer, whose model is an attribute; the resource has the name of the operation.
_TOKENIZER = "SentencepieceOp"

_LETTERS = string.ascii_lowercase + string.digits


def compact(directory: Path) -> None:
    """Shorten names and merge what is alike inside the functions of a SavedModel, in its file.

    Names by which anything from outside finds its way stay: of functions and their results, of
    the arguments of signatures, and of all operations outside of functions.

    Args:
        directory: The SavedModel.
    """
    file = directory / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for graph in saved.meta_graphs:
        _share_tokenizers(graph.graph_def)
        for function in graph.graph_def.library.function:
            while _merge(function):
                pass
            _shorten(function)
    file.write_bytes(saved.SerializeToString(deterministic=True))


def _share_tokenizers(graph: Any) -> None:
    """Keep one copy of each tokenizer's model.

    TensorFlow stores two: for Python in a function that makes the tokenizer, for the C++
    session in the graph outside of functions. There the function is called now.
    """
    makers = {
        node.attr["model"].s: function.signature.name
        for function in graph.library.function
        for node in function.node_def
        if node.op == _TOKENIZER
    }
    for node in graph.node:
        if node.op == _TOKENIZER and node.attr["model"].s in makers:
            maker = makers[node.attr["model"].s]
            node.attr.clear()
            node.op = "StatefulPartitionedCall"
            node.attr["f"].func.name = maker
            node.attr["Tin"].list.SetInParent()
            node.attr["Tout"].list.type.append(types_pb2.DT_RESOURCE)


def _merge(function: Any) -> bool:
    """Keep one of the operations that are alike; whether there were any."""
    kept: dict[bytes, str] = {}
    instead: dict[str, str] = {}
    nodes = []
    for node in function.node_def:
        if node.op in _MERGED:
            likeness = type(node)()
            likeness.CopyFrom(node)
            _strip(likeness)
            likeness.ClearField("name")
            key = likeness.SerializeToString(deterministic=True)
            instead[node.name] = kept.setdefault(key, node.name)
            if instead[node.name] != node.name:
                continue
        nodes.append(node)
    merged = len(nodes) < len(function.node_def)
    if merged:
        # The nodes belong to the list that is emptied.
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del function.node_def[:]
        function.node_def.extend(copies)
        _rename(function, instead)
    return merged


def _strip(node: Any) -> None:
    """Drop notes about an operation that no loader needs."""
    node.ClearField("experimental_debug_info")
    node.ClearField("experimental_type")
    node.attr.pop("_output_shapes", None)
    # A place beside another operation: all that runs here is on one device.
    node.attr.pop("_class", None)


def _shorten(function: Any) -> None:
    arguments = function.signature.input_arg
    named = "signature_wrapper" in function.signature.name
    taken = {argument.name for argument in arguments} if named else set()
    free = (name for name in _names() if name not in taken)
    for index, argument in enumerate(arguments):
        if argument.type == types_pb2.DT_RESOURCE:
            function.arg_attr.pop(index, None)
    items = [*([] if named else arguments), *function.node_def]
    short = {item.name: _resource_name(item) or next(free) for item in items}
    for item in items:
        item.name = short[item.name]
    for node in function.node_def:
        _strip(node)
    _rename(function, short)


def _resource_name(item: Any) -> str | None:
    """The name of an operation that makes a tokenizer, None for all others.

    Loaded by Python, two tokenizers made under one name become one, be they of one SavedModel
    or of two versions in one process; so each is named after what it is.
    """
    if getattr(item, "op", "") != _TOKENIZER:
        return None
    return f"sentencepiece_{hashlib.sha256(item.attr['model'].s).hexdigest()[:16]}"


def _rename(function: Any, names: dict[str, str]) -> None:
    """Let every reference to an operation follow its new name."""

    def renamed(reference: str) -> str:
        """A node's name, ``name:output:index`` or ``^name``."""
        control = "^" if reference.startswith("^") else ""
        name, colon, rest = reference.removeprefix("^").partition(":")
        return f"{control}{names.get(name, name)}{colon}{rest}"

    for node in function.node_def:
        node.input[:] = [renamed(reference) for reference in node.input]
    for results in (function.ret, function.control_ret):
        for key, reference in dict(results).items():
            results[key] = renamed(reference)


def _names() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ...: the first character is a letter, as TensorFlow demands."""
    yield from string.ascii_lowercase
    for size in itertools.count(1):
        for first in string.ascii_lowercase:
            yield from (first + "".join(rest) for rest in itertools.product(_LETTERS, repeat=size))
