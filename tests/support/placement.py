"""Placement of a graph on a machine with a GPU, found out on one without.

TensorFlow's wheel for Linux registers its GPU kernels on any machine: for which types there is
one, and which of its arguments lie in the memory of the host. So the operations without a kernel
are known, and the tensors that are copied from the GPU to the host, for which the host waits. The
optimizations of graphs (Grappler) are left out.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels

_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
_WHILES = {"While", "StatelessWhile"}
_IFS = {"If", "StatelessIf"}
# Gone before a graph runs, or without any data of their own.
_TRANSPARENT = {"Identity", "StopGradient", "PreventGradient"}
_HANDLES = (tf.resource, tf.variant)

Edge = tuple["Node", int]
Key = tuple[str, str, int]
"""Operation, file and depth of loops."""


@dataclasses.dataclass(eq=False)
class Node:
    """An operation of a graph whose functions, branches and loops are inlined."""

    op: str
    types: dict[str, list[int]]
    inputs: list[Edge]
    outputs: list[tf.DType]
    line: str
    """Innermost line of this package that made it, such as ``model/embedding.py:96``."""
    depth: int
    """Number of loops around it."""
    on_gpu: bool = True
    host_in: list[bool] = dataclasses.field(default_factory=list)
    host_out: list[bool] = dataclasses.field(default_factory=list)
    asked_for_cpu: bool = False
    """Placed on the CPU by `tf.device`."""

    @property
    def file(self) -> str:
        """Return ``line`` without its number."""
        return self.line.partition(":")[0]


class Placement:
    """Nodes of a function, each where TensorFlow's placer would put it.

    Args:
        function: A concrete function.
        prefetched: Whether its arguments lie on the GPU, except texts and resources.
    """

    def __init__(self, function: Any, prefetched: bool = False) -> None:
        self.nodes: list[Node] = []
        edges: list[Edge] = []
        for tensor in function.graph.inputs:
            host = tensor.dtype in (*_HANDLES, tf.string) or not prefetched
            node = Node("Arg", {}, [], [tensor.dtype], "", 0, not host, [], [host])
            self.nodes.append(node)
            edges.append((node, 0))
        wanted = [node for node, _ in self._inline(function.graph, edges, 0, "")]
        wanted += [node for node in self.nodes if not node.outputs]  # what only changes something
        self.nodes = list(_behind(wanted))

    def without_kernel(self) -> collections.Counter[Key]:
        """Count the operations that have no kernel for GPUs."""
        return collections.Counter(
            (node.op, node.file, node.depth)
            for node in self.nodes
            if not node.on_gpu and not node.asked_for_cpu
            if node.op not in ("Arg", "NoOp", "Const")
        )

    def back_to_host(self) -> collections.Counter[Key]:
        """Count the tensors that are copied from the GPU to the host, by the maker of each."""
        found = {
            (source, index)
            for node in self.nodes
            for (source, index), host in zip(node.inputs, node.host_in, strict=True)
            if host and not source.host_out[index] and source.op != "Const"
            if source.outputs[index] not in _HANDLES
        }
        return collections.Counter((node.op, node.file, node.depth) for node, _ in found)

    def launches(self, depth: int) -> int:
        """Return about how many kernels run at a depth of loops."""
        still = {"Const", "Enter", "Exit", "Merge", "Switch", "NextIteration", "Arg", "Bitcast"}
        still |= {"ReadVariableOp", "Reshape", "ExpandDims", "Squeeze"}
        return sum(
            node.depth == depth and node.on_gpu and not all(node.host_out) and node.op not in still
            for node in self.nodes
        )

    def _add(
        self,
        op: str,
        types: dict[str, list[int]],
        arguments: Sequence[str],
        results: Sequence[str],
        *rest: Any,
        on_cpu: bool = False,
    ) -> Node:
        node = Node(op, types, *rest)
        kernel = None if on_cpu else _kernel(op, types)
        node.on_gpu, node.asked_for_cpu = kernel is not None, on_cpu
        host = set(kernel.host_memory_arg) if kernel else {*arguments, *results}
        node.host_in = [name in host for name in arguments]
        node.host_out = [name in host for name in results]
        self.nodes.append(node)
        return node

    def _flow(self, op: str, tensor: Any, inputs: list[Edge], line: str, depth: int) -> Node:
        """Add an operation of a condition or loop as it is when it runs."""
        names = {"Switch": (["data", "pred"], ["output_false", "output_true"])}
        names["Merge"] = ["inputs"] * len(inputs), ["output", "value_index"]
        arguments, results = names.get(op, (["data"], ["output"]))
        kinds = [tensor.dtype] * len(results)
        types = {"T": [tensor.dtype.as_datatype_enum]}
        return self._add(op, types, arguments, results, inputs, kinds, line, depth)

    def _inline(self, graph: Any, inputs: list[Edge], depth: int, around: str) -> list[Edge]:
        """Add the nodes of a graph; return the edges of its outputs."""
        known = {tensor.op.name: [edge] for tensor, edge in zip(graph.inputs, inputs, strict=True)}
        for op in graph.get_operations():
            if op.name in known:
                continue
            edges = [known[tensor.op.name][tensor.value_index] for tensor in op.inputs]
            line = _line(op) or around
            if op.type in _TRANSPARENT:
                known[op.name] = edges[:1]
            elif op.type in _CALLS:
                known[op.name] = self._inline(_function(graph, op, "f"), edges, depth, line)
            elif op.type in _IFS:
                known[op.name] = self._if(graph, op, edges, depth, line)
            elif op.type in _WHILES:
                known[op.name] = self._while(graph, op, edges, depth, line)
            else:
                node = self._operation(op, edges, depth, line)
                known[op.name] = [(node, index) for index in range(len(op.outputs))]
        return [known[tensor.op.name][tensor.value_index] for tensor in graph.outputs]

    def _operation(self, op: Any, edges: list[Edge], depth: int, line: str) -> Node:
        types = {
            item.name: _types(op.node_def, item)
            for item in op.op_def.attr
            if item.type in ("type", "list(type)")
        }
        names = [
            _names(items, op.node_def) for items in (op.op_def.input_arg, op.op_def.output_arg)
        ]
        kinds = [tensor.dtype for tensor in op.outputs]
        return self._add(op.type, types, *names, edges, kinds, line, depth, on_cpu=_on_cpu(op))

    def _if(self, graph: Any, op: Any, edges: list[Edge], depth: int, line: str) -> list[Edge]:
        switches = [
            self._flow("Switch", tensor, [edge, edges[0]], line, depth)
            for tensor, edge in zip(op.inputs[1:], edges[1:], strict=True)
        ]
        yes, no = (
            self._inline(_function(graph, op, name), [(s, side) for s in switches], depth, line)
            for name, side in (("then_branch", 1), ("else_branch", 0))
        )
        return [
            (self._flow("Merge", tensor, list(pair), line, depth), 0)
            for tensor, *pair in zip(op.outputs, yes, no, strict=True)
        ]

    def _while(self, graph: Any, op: Any, edges: list[Edge], depth: int, line: str) -> list[Edge]:
        condition, body = (_function(graph, op, name) for name in ("cond", "body"))
        enters = [
            self._flow("Enter", tensor, [edge], line, depth)
            for tensor, edge in zip(op.inputs, edges, strict=True)
        ]
        constant = [
            _source(out) is given for out, given in zip(body.outputs, body.inputs, strict=True)
        ]
        merges = [
            enter if same else self._flow("Merge", tensor, [(enter, 0)], line, depth + 1)
            for tensor, enter, same in zip(op.inputs, enters, constant, strict=True)
        ]
        [goes_on] = self._inline(condition, [(node, 0) for node in merges], depth + 1, line)
        goes_on = (
            self._add("LoopCond", {}, ["input"], ["output"], [goes_on], [tf.bool], line, depth + 1),
            0,
        )
        switches = [
            merge if same else self._flow("Switch", tensor, [(merge, 0), goes_on], line, depth + 1)
            for tensor, merge, same in zip(op.inputs, merges, constant, strict=True)
        ]
        inside = [(node, 0 if same else 1) for node, same in zip(switches, constant, strict=True)]
        results = self._inline(body, inside, depth + 1, line)
        outputs: list[Edge] = []
        for place, tensor in enumerate(op.outputs):
            if constant[place]:
                outputs.append((enters[place], 0))
                continue
            again = self._flow("NextIteration", tensor, [results[place]], line, depth + 1)
            merges[place].inputs.append((again, 0))
            merges[place].host_in *= 2
            leaves = self._flow("Exit", tensor, [(switches[place], 0)], line, depth)
            outputs.append((leaves, 0))
        return outputs


_KERNELS: dict[str, list[Any]] = collections.defaultdict(list)


def _kernel(op: str, types: dict[str, list[int]]) -> Any:
    """Return the kernel that a GPU would run, or None."""
    if not _KERNELS:
        for kernel in kernels.get_all_registered_kernels().kernel:
            _KERNELS[kernel.op].append(kernel)
    for device in ("GPU", "DEFAULT"):
        for kernel in _KERNELS[op]:
            if kernel.device_type == device and not kernel.label and _fits(kernel, types):
                return kernel
    return None


def _fits(kernel: Any, types: dict[str, list[int]]) -> bool:
    return all(
        set(types.get(item.name, ())) <= set(item.allowed_values.list.type)
        for item in kernel.constraint
        if item.allowed_values.list.type
    )


def _types(node: Any, item: Any) -> list[int]:
    value = node.attr[item.name] if item.name in node.attr else item.default_value  # noqa: SIM401
    return [value.type] if value.WhichOneof("value") == "type" else list(value.list.type)


def _names(items: Any, node: Any) -> list[str]:
    """Return the name of each argument, repeated where one stands for several tensors."""
    names: list[str] = []
    for item in items:
        several = node.attr[item.type_list_attr].list.type if item.type_list_attr else [None]
        count = node.attr[item.number_attr].i if item.number_attr else len(several)
        names += [item.name] * count
    return names


def _function(graph: Any, op: Any, attribute: str) -> Any:
    function = graph._get_function(op.get_attr(attribute).name)
    return getattr(function, "cached_graph", None) or function.graph


def _on_cpu(op: Any) -> bool:
    """Return whether `tf.device` asks for the CPU; an operation on a resource goes to that."""
    return "CPU" in op.device and not any(tensor.dtype in _HANDLES for tensor in op.inputs)


def _source(tensor: Any) -> Any:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _line(op: Any) -> str:
    for frame in reversed(op.traceback or ()):
        before, ours, name = frame.filename.rpartition("keras_transformer/")
        if ours and "site-packages" not in before:
            return f"{name}:{frame.lineno}"
    return ""


def _behind(wanted: list[Node]) -> Iterator[Node]:
    """Yield these nodes and all that they need."""
    seen: set[int] = set()
    while wanted:
        node = wanted.pop()
        if id(node) not in seen:
            seen.add(id(node))
            wanted += [source for source, _ in node.inputs]
            yield node
