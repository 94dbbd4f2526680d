"""Literals of OpenNMT-tf's model_description.py, which is Python code and is never run."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import limits

NAME = "model_description.py"
_MAX_BYTES = 1 << 20
_CATALOG = "get_model_from_catalog"

# Heads of the models in OpenNMT-tf's catalog.
_HEADS = {
    "Transformer": 8,
    "TransformerBase": 8,
    "TransformerBaseSharedEmbeddings": 8,
    "TransformerBig": 16,
    "TransformerBigSharedEmbeddings": 16,
    "TransformerTiny": 2,
    "ScalingNmtEnDe": 16,
    "ScalingNmtEnFr": 16,
}
_RELATIVE = ("TransformerRelative", "TransformerBaseRelative", "TransformerBigRelative")
_SOURCE_END = ("ScalingNmtEnDe", "ScalingNmtEnFr")
_ACTIVATIONS = {
    "relu": "relu",
    "tf.nn.relu": "relu",
    "tf.nn.gelu": "gelu",
    "gelu": "gelu_tanh",  # that of opennmt.layers
    "tf.nn.swish": "silu",
    "tf.nn.silu": "silu",
}


@dataclass(frozen=True)
class Description:
    """What a model description says by literals.

    Args:
        model: Name of a model in the catalog; "" if the file does not have one.
        heads: Attention heads; 0 if the file does not say it.
        activation: Our name of the activation; "" if the file does not say it.
        source_end: Whether this model's own settings end the source with the end token.
    """

    model: str = ""
    heads: int = 0
    activation: str = ""
    source_end: bool = False


def read_description(path: Path) -> Description:
    """Read the name or the arguments of the model in a description.

    Raises:
        ConvertError: It is not Python, or describes a model that cannot be converted.
    """
    text = limits.read_bytes(path, _MAX_BYTES)
    try:
        tree = ast.parse(text)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConvertError(f"{path}: expected Python code, got {type(error).__name__}") from None
    models = {_model(call) for call in calls} - {""}
    if len(models) > 1:
        raise ConvertError(f"{path}: expected one model, got {', '.join(sorted(models))}")
    model = models.pop() if models else ""
    if model in _RELATIVE:
        raise ConvertError(f"{path}: {model}: relative positions cannot be converted")
    if model and model not in _HEADS:
        raise ConvertError(f"{path}: expected one of {', '.join(_HEADS)}, got {model}")
    heads = _only(path, calls, "num_heads")
    activation = _only(path, calls, "ffn_activation")
    if heads is not None and not (isinstance(heads, ast.Constant) and type(heads.value) is int):
        heads = None  # a name: its value is not known without running the code
    return Description(
        model=model,
        heads=heads.value if isinstance(heads, ast.Constant) else _HEADS.get(model, 0),  # type: ignore[arg-type]
        activation=_activation(path, activation),
        source_end=model in _SOURCE_END,
    )


def _model(call: ast.Call) -> str:
    """Return the name of a catalog's model that a call refers to, or ""."""
    name = ast.unparse(call.func).rpartition(".")[2] if _is_name(call.func) else ""
    if name == _CATALOG and call.args and isinstance(call.args[0], ast.Constant):
        return str(call.args[0].value)
    # "Transformer" is also the class whose arguments describe a model.
    known = name in _HEADS or name in _RELATIVE
    return name if known and not call.keywords and not call.args else ""


def _is_name(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _only(path: Path, calls: list[ast.Call], name: str) -> ast.AST | None:
    """Return the value of an argument that calls have, the same in all of them."""
    keywords = itertools.chain.from_iterable(call.keywords for call in calls)
    values = [keyword.value for keyword in keywords if keyword.arg == name]
    if len({ast.dump(value) for value in values}) > 1:
        raise ConvertError(f"{path}: expected one value of {name}, got several")
    return values[0] if values else None


def _activation(path: Path, value: ast.AST | None) -> str:
    if value is None:
        return "relu"  # OpenNMT-tf's default
    if not _is_name(value):
        return ""
    name = ast.unparse(value)
    known = name if name.startswith("tf.") else name.rpartition(".")[2]
    if known not in _ACTIVATIONS:
        raise ConvertError(
            f"{path}: ffn_activation: expected one of {', '.join(_ACTIVATIONS)}, got {name[:40]}"
        )
    return _ACTIVATIONS[known]
