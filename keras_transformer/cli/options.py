"""Options of the entry points, and the configuration files that ``--config`` names."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace, set_parsing_settings

from keras_transformer import presets
from keras_transformer.cli.messages import UsageError, explain
from keras_transformer.compat import jsonargparse as compat
from keras_transformer.config import SECTIONS, Config, from_dict
from keras_transformer.config.yaml_file import read_config_file
from keras_transformer.field_types import field_types, read_text
from keras_transformer.system import check_local
from keras_transformer.validation import Range, check_number, read_field

Values = dict[str, Any]


class Parser(ArgumentParser):
    """A parser that knows which sections of the configuration are among its options."""

    sections: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """Options whose values are never paths of this machine, such as sentences."""

    @property
    def own(self) -> Values:
        """The options that are not configuration fields, with their defaults."""
        return {
            action.dest: None if action.default is argparse.SUPPRESS else action.default
            for action in compat.actions(self)
            if action.dest.partition(".")[0] not in self.sections
        }

    @property
    def names(self) -> list[str]:
        """The options and fields that a user may give, without dashes."""
        names = (option.removeprefix("--") for option in compat.long_options(self))
        return [name for name in names if name not in self.sections]


@dataclass(frozen=True)
class Options:
    """The options that the user gave to an entry point.

    Attributes:
        own: The entry point's own options; an option left out has its default, mostly None.
        preset: The preset that the user named, or None.
        given: Configuration fields from the file and the command line, which wins:
            ``{"train": {"max_steps": 100}}``.
    """

    own: Namespace
    preset: str | None = None
    given: Values = field(default_factory=dict)

    @property
    def corpus(self) -> str:
        """The training corpus."""
        return str(self.given.get("data", {}).get("train", Config().data.train))

    def config(self, base: Config | None = None) -> Config:
        """Build the whole configuration.

        Args:
            base: The configuration that the options change, such as that of a run. None: a
                preset, by default ``demo`` for a built-in corpus and ``tiny`` for others.

        Raises:
            ConfigError: An unknown preset or an invalid value.
        """
        if base is None and self.preset is None:
            return self._build("demo" if self.corpus.startswith("builtin:") else "tiny", None)
        return self._build(self.preset, base)

    def _build(self, preset: str | None, base: Config | None) -> Config:
        if preset is None:
            return from_dict(self.given, base)
        presets.preset(preset)  # refuses an unknown name
        return from_dict(merged(presets.PRESETS[preset], self.given), base)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Values:
    """Return two nested dictionaries merged; where both have a value, ``second`` wins."""
    result = dict(first)
    for name, value in second.items():
        both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merged(result[name], value) if both else value
    return result


def bare_parser(name: str, description: str, positional: str = "") -> Parser:
    """Build a parser without any option.

    Args:
        name: The module that is run, such as ``serve``.
        description: First part of the help; its layout is kept.
        positional: Arguments before the options, for the usage line.
    """
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    words = [f"python -m keras_transformer.{name}", positional, "[OPTION ...]"]
    return Parser(
        prog=f"keras_transformer.{name}",
        usage=" ".join(filter(None, words)),
        description=description,
        formatter_class=compat.ManualFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )


def build_parser(name: str, description: str, sections: Sequence[str]) -> Parser:
    """Build a parser with ``--config`` and the fields of some sections of the configuration.

    Args:
        name: The module that is run, such as ``train``.
        description: First part of the help; its layout is kept.
        sections: Names from ``SECTIONS``; all of them add ``--preset`` too.
    """
    parser = bare_parser(name, description)
    parser.sections = tuple(sections)
    whole = len(sections) == len(SECTIONS)
    rest = f" Only the section {' and '.join(sections)} is read; other fields come from the run."
    parser.add_argument(
        "--config",
        metavar="FILE.yaml",
        help=f"Fields in YAML, such as {sections[0]}: {{...}}; the command line wins."
        + ("" if whole else rest),
    )
    if whole:
        parser.add_argument(
            "--preset",
            metavar="NAME",
            help=f"Configuration to start from: {', '.join(presets.PRESETS)}. A configuration "
            "file and the command line win. Left out: demo for a built-in corpus, else tiny.",
        )
    for section in sections:
        _add_section(parser, section)
    return parser


def add_fields(parser: Parser, config_class: type, section: str = "") -> None:
    """Add the fields of a dataclass as options.

    Args:
        parser: Gets the options ``--SECTION.FIELD``.
        config_class: The dataclass, with a docstring below each field.
        section: The section of the configuration; "": the options are ``--FIELD``.
    """
    parser.add_class_arguments(config_class, section or None)
    if section:
        compat.remove_option(parser, f"--{section}")
    fields = field_types(config_class)
    for action in compat.actions(parser):
        owner, _, name = action.dest.rpartition(".")
        if owner == section and name in fields:
            read = functools.partial(_read, config_class, name, action.dest)
            compat.read_with(action, read)


def _read(config_class: type, field_name: str, name: str, text: str) -> Any:
    return read_field(config_class, field_name, text, name)


def add_number(
    parser: Parser, name: str, valid: Range, *, help: str, default: int | None = None
) -> None:
    """Add an option that is a whole number.

    Args:
        parser: Gets the option ``--NAME N``.
        name: Without dashes.
        valid: The valid values; others are refused at once.
        help: Its documentation.
        default: None: left out.
    """
    action = parser.add_argument(f"--{name}", type=int, metavar="N", help=help, default=default)

    def read(text: str) -> int:
        try:
            value: int = read_text(text, int)
        except ValueError as error:
            raise UsageError(f"--{name}: {error}") from None
        check_number(value, f"--{name}", valid)
        return value

    compat.read_with(action, read)


def _add_section(parser: Parser, section: str) -> None:
    add_fields(parser, SECTIONS[section], section)
    for action in compat.actions(parser):
        if action.dest.startswith(f"{section}."):
            name = action.dest.partition(".")[2]
            values = [(key, preset.get(section, {})) for key, preset in presets.PRESETS.items()]
            changed = [f"{key} {value[name]}" for key, value in values if name in value]
            if changed:
                action.help = f"{action.help} Presets: {', '.join(changed)}."


def load_config(parser: Parser, argv: Sequence[str]) -> Options:
    """Read the command line and the configuration file that it names.

    Args:
        parser: Built by ``build_parser``, with the entry point's own options added.
        argv: The words after the module's name.

    Returns:
        The user's options; of the configuration, only the fields that the user gave.

    Raises:
        UserError: An unknown option or field, or a value of the wrong type.
    """
    found = parse(parser, argv, defaults=False).as_dict()
    typed = {key: found[key] for key in parser.sections if key in found}
    own = Namespace({key: found.get(key, default) for key, default in parser.own.items()})
    given: Values = {}
    if own.config is not None:
        given = _read_file(Path(own.config), parser.sections)
    from_file = given.pop("preset", None)
    return Options(own, own.get("preset") or from_file, merged(given, typed))


def parse(parser: Parser, argv: Sequence[str], defaults: bool = True) -> Namespace:
    """Read the command line.

    Args:
        parser: Built by ``bare_parser`` or ``build_parser``.
        argv: The words after the module's name.
        defaults: Whether options left out have their defaults.

    Raises:
        UsageError: An unknown option, or a value of the wrong type.
        FileError: An address such as ``gs://bucket/file``.
    """
    try:
        found = parser.parse_args(list(argv), defaults=defaults)
    except argparse.ArgumentError as error:
        raise UsageError(explain(str(error), parser.names)) from None
    _refuse_remote(parser, found)
    return found


def _refuse_remote(parser: Parser, found: Namespace) -> None:
    """Refuse addresses of remote files; the sections of the configuration check their own."""
    own = parser.own.keys() - set(parser.texts)
    for action in compat.actions(parser):
        if action.dest in own:
            value = found.get(action.dest)
            names = [*action.option_strings, action.metavar, action.dest.upper()]
            name = next(str(name) for name in names if name)
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    check_local(text, name)


def _read_file(path: Path, sections: Sequence[str]) -> Values:
    """Read a recipe and check all fields; return those of ``sections`` and any preset."""
    values = read_config_file(path, ["preset"])
    wanted = [*sections, "preset"] if len(sections) == len(SECTIONS) else sections
    return {key: value for key, value in values.items() if key in wanted}
