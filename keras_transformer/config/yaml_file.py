"""YAML files of a configuration: recipes, and the config.yaml of runs.

Scalars keep their text, and the type of the field decides how to read it: ``target: no`` is a
language, ``sample: no`` is false and ``alpha: 6e-1`` is a number. YAML 1.1 would read two booleans
and a text. A list of texts is a sequence, or a scalar as on the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from keras_transformer.config import SECTIONS
from keras_transformer.field_types import (
    TEXTS,
    describe_type,
    field_types,
    format_name,
    format_value,
)
from keras_transformer.validation import ConfigError, read_field, unknown_message

MAX_BYTES = 1 << 17
"""Largest file, parsed in about two seconds; a device such as /dev/zero has no end."""
_NULL = ("", "~", "null", "Null", "NULL")
_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
}
"""Standard tags of YAML 1.1, which values without a tag get too; all others are refused."""
_MAX_DEPTH = 20


def read_config_file(path: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Read the fields of a configuration from a YAML file.

    Args:
        path: The file, UTF-8.
        keys: Further keys beside the sections, such as ``preset``; their values are texts.

    Returns:
        The fields that the file gives, ``{"train": {"max_steps": 100}}``, with values of the
        fields' types. Ranges are checked when the configuration is built.

    Raises:
        ConfigError: The file cannot be read, or has an unknown, repeated or mistyped field; the
            message names the file and the line.
    """
    document = _compose(_read(path), path)
    try:
        return _sections(document, keys)
    except _LineError as error:
        raise ConfigError(f"{path}, line {error.line}: {error}") from None


def write_config_text(values: dict[str, Any]) -> str:
    """Return the YAML of a configuration that `read_config_file` reads back.

    Args:
        values: Nested dictionaries, as of `keras_transformer.config.to_dict`.
    """
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_end=True)


class _Dumper(yaml.SafeDumper):
    """A dumper that escapes line separators, which PyYAML would take for line breaks to fold."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = None if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


class _LineError(ConfigError):
    """An error at a node of a document."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.line = _line(node)


class _Loader(yaml.SafeLoader):
    """A loader that refuses deep nesting, which would exhaust the stack."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"config: cannot read {path}: expected at most {MAX_BYTES} bytes")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"config: there is no file {path}") from None
    except OSError as error:
        raise ConfigError(f"config: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"config: cannot read {path}: expected UTF-8, got byte 0x{content[error.start]:02x} "
            f"in line {content[: error.start].count(10) + 1}"
        ) from None


def _compose(text: str, path: Path) -> yaml.MappingNode:
    """Parse a document; aliases stay references, so that they cannot multiply."""
    try:
        document = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        words = ": ".join(filter(None, (error.context, error.problem)))
        hint = " (indent with spaces, not with tabs)" if "'\\t'" in words else ""
        raise ConfigError(f"{path}{line}: not YAML: {words}{hint}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if isinstance(document, yaml.MappingNode) and document.value:
        return document
    found = "nothing" if document is None else _describe_node(document)
    raise ConfigError(f"{path}: expected fields such as 'train: {{max_steps: 100}}', found {found}")


def _sections(document: yaml.MappingNode, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of a document by section, and those of ``keys``."""
    values: dict[str, Any] = {}
    for section, key, content in _entries(document, ""):
        if section in keys:
            values[section] = _text(content, section, "a text")
        elif section not in SECTIONS:
            fields = content.value if isinstance(content, yaml.MappingNode) else []
            first = fields[0][0] if fields else None
            name = f"{section}.{first.value}" if isinstance(first, yaml.ScalarNode) else section
            raise _LineError(key, unknown_message(name, "field", _valid_names(keys)))
        elif not isinstance(content, yaml.MappingNode):
            raise _LineError(
                content, f"{section}: expected fields and values, got {_describe_node(content)}"
            )
        else:
            values[section] = _fields(content, section, keys)
    return values


def _fields(node: yaml.MappingNode, section: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of a section by field."""
    values = {}
    for name, key, value in _entries(node, f"{section}."):
        if name not in field_types(SECTIONS[section]):
            raise _LineError(key, unknown_message(f"{section}.{name}", "field", _valid_names(keys)))
        values[name] = _value(value, section, name)
    return values


def _valid_names(keys: Sequence[str]) -> list[str]:
    """Return the valid names of sections, fields and keys, to suggest similar ones."""
    fields = [
        f"{section}.{name}" for section in SECTIONS for name in field_types(SECTIONS[section])
    ]
    return [*fields, *SECTIONS, *keys]


def _value(node: yaml.Node, section: str, name: str) -> Any:
    config_class, full_name = SECTIONS[section], f"{section}.{name}"
    kind = field_types(config_class)[name]
    if kind == TEXTS and isinstance(node, yaml.SequenceNode) and node.tag in _TAGS:
        return tuple(_text(item, full_name, "a text in the list") for item in node.value)
    text = _text(node, full_name, describe_type(kind))
    try:
        return read_field(config_class, name, text, full_name)
    except ConfigError as error:
        raise _LineError(node, str(error)) from None


def _text(node: yaml.Node, name: str, expected: str) -> str:
    """Return the text of a scalar, as written."""
    if not isinstance(node, yaml.ScalarNode) or node.tag not in _TAGS:
        raise _LineError(node, f"{name}: expected {expected}, got {_describe_node(node)}")
    if node.style is None and node.value in _NULL:
        raise _LineError(node, f"{name}: expected a value, got null; leave the line out instead")
    return str(node.value)


def _entries(node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Yield the name, the key and the value of each entry of a mapping.

    Raises:
        _LineError: A name is given twice, or is not a scalar.
    """
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _LineError(key, f"expected the name of a field, got {_describe_node(key)}")
        name = str(key.value)
        if name in lines:
            raise _LineError(
                key,
                f"{prefix}{format_name(name)} is given twice, in lines {lines[name]} and "
                f"{_line(key)}; keep one",
            )
        lines[name] = _line(key)
        yield name, key, value


def _describe_node(node: yaml.Node) -> str:
    if node.tag not in _TAGS:
        return f"the tag {format_name(node.tag)}"
    if isinstance(node, yaml.ScalarNode):
        return "nothing" if node.style is None and not node.value else format_value(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "fields and values"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
