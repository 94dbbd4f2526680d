"""Generator of the configuration reference, docs/configuration.md.

Options, defaults, presets and descriptions come from the dataclasses in keras_transformer.config.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import typing
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from keras_transformer.cli.streams import output
from keras_transformer.config import Config
from keras_transformer.presets import PRESETS

FILE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
COMMAND = "python -m tools.config_reference"

_HEAD = f"""# Configuration

<!-- Written by `{COMMAND}` from the dataclasses of keras_transformer.config. -->

Every field is an option (`--model.norm pre`) and may stand in a YAML file (`--config FILE.yaml`):

```yaml
preset: tiny
model:
  norm: pre
train:
  max_steps: 6000
```

The order is: defaults, preset, file, command line. `train` takes all sections; `translate`,
`evaluate`, `score` and `export` take `search`. A run keeps its configuration in `config.yaml`.
"""


def reference() -> str:
    """Return the whole document."""
    sections = typing.get_type_hints(Config)
    return "\n".join([_HEAD, *(_section(name, kind) for name, kind in sections.items())])


def _section(section: str, kind: type) -> str:
    described, types = field_docstrings(kind), typing.get_type_hints(kind)
    lines = [
        f"## {section}",
        "",
        _one_line(inspect.getdoc(kind) or ""),
        "",
        "| option | default | presets | meaning |",
        "|---|---|---|---|",
    ]
    for field in dataclasses.fields(kind):
        cells = [
            f"`--{section}.{field.name}`",
            _value(field.default),
            _presets(section, field.name),
            _choices(types[field.name]) + described[field.name],
        ]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join([*lines, ""])


def field_docstrings(kind: type) -> dict[str, str]:
    """Return the text under each field of a dataclass, in one line.

    Raises:
        ValueError: A field has none.
    """
    (tree,) = ast.parse(inspect.getsource(kind)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    found = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = _one_line(text.value)
    missing = [field.name for field in dataclasses.fields(kind) if field.name not in found]
    if missing:
        raise ValueError(f"{kind.__name__}: expected a docstring under {', '.join(missing)}")
    return found


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    return "empty" if value in ("", ()) else str(value)


def _presets(section: str, name: str) -> str:
    values = ((preset, fields.get(section, {})) for preset, fields in PRESETS.items())
    return ", ".join(
        f"{preset} {_value(fields[name])}" for preset, fields in values if name in fields
    )


def _choices(kind: object) -> str:
    if typing.get_origin(kind) is not typing.Literal:
        return ""
    return f"One of {', '.join(f'`{choice}`' for choice in typing.get_args(kind))}. "


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the configuration reference.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    with output(str(parser.parse_args(arguments).file), "file") as stream:
        stream.write(reference())


if __name__ == "__main__":
    main()
