"""The options of the entry points, and the configuration files that they name."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace, set_parsing_settings
from jsonargparse import DefaultHelpFormatter as HelpFormatter

from keras_transformer import config as configuration
from keras_transformer import presets
from keras_transformer.config import Config
from keras_transformer.errors import UserError

SECTIONS = {item.name: item.default_factory for item in fields(Config)}
Values = dict[str, Any]

_TYPES = {
    "<class 'int'>": "a whole number",
    "<class 'float'>": "a number",
    "<class 'bool'>": "true or false",
    "<class 'str'>": "a text (in YAML: put it in quotes)",
}


class UsageError(UserError):
    """An option or a configuration file that cannot be understood."""


class Parser(ArgumentParser):
    """A parser that knows which sections of the configuration are among its options."""

    sections: tuple[str, ...] = ()

    @property
    def own(self) -> dict[str, Any]:
        """The options that are no configuration fields, with their defaults."""
        return {
            action.dest: None if action.default is argparse.SUPPRESS else action.default
            for action in self._actions
            if action.dest.partition(".")[0] not in self.sections
        }


class _Manual(HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that keeps examples as they were written, and names only defaults that say a thing."""

    def _expand_help(self, action: argparse.Action) -> str:
        text = re.sub(r" \(default: (null|False)\)$", "", super()._expand_help(action))
        return text.replace(", default: )", ")")


@dataclass(frozen=True)
class Options:
    """What the user gave to an entry point.

    Attributes:
        own: The entry point's own options; the default, mostly None, where one was left out.
        preset: The preset named by the user, None where none was.
        given: Configuration fields from the file and the command line, which wins:
            ``{"train": {"max_steps": 100}}``.
    """

    own: Namespace
    preset: str | None = None
    given: Values = field(default_factory=dict)

    @property
    def corpus(self) -> str:
        """What to train on."""
        return str(self.given.get("data", {}).get("train", Config().data.train))

    def config(self, base: Config | None = None) -> Config:
        """The whole configuration.

        Args:
            base: What the user's choices change, such as the configuration of a run. None:
                a preset, by default ``demo`` for a built-in corpus and ``tiny`` for others.

        Raises:
            ConfigError: No such preset, or a value that makes no sense.
        """
        if base is None and self.preset is None:
            return self._over("demo" if self.corpus.startswith("builtin:") else "tiny", None)
        return self._over(self.preset, base)

    def _over(self, preset: str | None, base: Config | None) -> Config:
        if preset is None:
            return configuration.from_dict(self.given, base)
        presets.preset(preset)  # refuses a name that is not there
        return configuration.from_dict(merged(presets.PRESETS[preset], self.given), base)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Values:
    """Nested dictionaries in one; where both have a value, ``second`` wins."""
    result = dict(first)
    for name, value in second.items():
        both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merged(result[name], value) if both else value
    return result


def bare_parser(name: str, description: str, positional: str = "") -> Parser:
    """A parser in the project's manner, without any option yet.

    Args:
        name: The module that is run, such as ``serve``.
        description: The manual's first part; kept as it is laid out.
        positional: What stands before the options, for the line of usage.
    """
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    words = [f"python -m keras_transformer.{name}", positional, "[OPTION ...]"]
    return Parser(
        prog=f"keras_transformer.{name}",
        usage=" ".join(filter(None, words)),
        description=description,
        formatter_class=_Manual,
        exit_on_error=False,
        allow_abbrev=False,
    )


def build_parser(name: str, description: str, sections: Sequence[str]) -> Parser:
    """A parser with ``--config`` and the fields of some sections of the configuration.

    Args:
        name: The module that is run, such as ``train``.
        description: The manual's first part; kept as it is laid out.
        sections: Names of ``SECTIONS``; with "model" among them there is ``--preset`` too.
    """
    parser = bare_parser(name, description)
    parser.sections = tuple(sections)
    whole = len(sections) == len(SECTIONS)
    rest = f" Only {' and '.join(sections)} is read. What is left out comes from the run."
    parser.add_argument(
        "--config",
        metavar="FILE.yaml",
        help=f"Fields in YAML, written {sections[0]}: {{...}}; the command line wins."
        + ("" if whole else rest),
    )
    if whole:
        _add_preset(parser)
    for section in sections:
        _add_section(parser, section)
    return parser


def _add_preset(parser: Parser) -> None:
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help=f"What to start from: {', '.join(presets.PRESETS)}. A configuration file and the "
        "command line win. Left out: demo for a built-in corpus, tiny for others.",
    )


def _add_section(parser: Parser, section: str) -> None:
    parser.add_class_arguments(SECTIONS[section], section)
    for action in parser._actions:
        if action.option_strings == [f"--{section}"]:
            action.help = argparse.SUPPRESS  # a whole section in one option: --config does it
        elif action.dest.startswith(f"{section}."):
            name = action.dest.partition(".")[2]
            values = [(key, preset.get(section, {})) for key, preset in presets.PRESETS.items()]
            changed = [f"{key} {value[name]}" for key, value in values if name in value]
            if changed:
                action.help = f"{action.help} Presets: {', '.join(changed)}."


def load_config(parser: Parser, argv: Sequence[str]) -> Options:
    """Read the command line, and the configuration file that it names.

    Args:
        parser: Made by ``build_parser``, with the entry point's own options added.
        argv: The words after the module's name.

    Returns:
        The choices of the user; of the configuration, nothing that is a default.

    Raises:
        UsageError: An unknown option or field, or a value of the wrong type.
    """
    found = parse(parser, argv, defaults=False).as_dict()
    typed = {key: found[key] for key in parser.sections if key in found}
    own = Namespace({key: found.get(key, default) for key, default in parser.own.items()})
    _refuse_null(typed)
    given: Values = {}
    if own.config is not None:
        given = _read_file(Path(own.config), parser.sections)
    from_file = given.pop("preset", None)
    return Options(own, own.get("preset") or from_file, merged(given, typed))


def parse(parser: Parser, argv: Sequence[str], defaults: bool = True) -> Namespace:
    """Read the command line and nothing else.

    Args:
        parser: Made by ``bare_parser`` or ``build_parser``.
        argv: The words after the module's name.
        defaults: Whether what was left out has its default value.

    Raises:
        UsageError: An unknown option, or a value of the wrong type.
    """
    try:
        return parser.parse_args(list(argv), defaults=defaults)
    except argparse.ArgumentError as error:
        raise UsageError(_explained(str(error), parser)) from None


def _read_file(path: Path, sections: Sequence[str]) -> Values:
    """The fields in a YAML file, all checked, those of ``sections`` (and a preset) returned."""
    parser = build_parser("config", "", list(SECTIONS))
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = parser.parse_string(text, defaults=False).as_dict()
    except FileNotFoundError:
        raise UsageError(f"config: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"config: cannot read {path}: {error}") from None
    except argparse.ArgumentError as error:
        raise UsageError(f"{path}: {_explained(str(error), parser)}") from None
    try:
        _refuse_null(values)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    wanted = [*sections, "preset"] if len(sections) == len(SECTIONS) else sections
    return {key: value for key, value in values.items() if key in wanted}


def _refuse_null(values: Values) -> None:
    for section, content in values.items():
        if not isinstance(content, dict):
            if content is None or section in SECTIONS:
                raise UsageError(f"{section}: expected fields and values, got {content!r}")
            continue
        for name, value in content.items():
            if value is None:
                raise UsageError(f"{section}.{name}: expected a value, got null")


def _explained(message: str, parser: Parser) -> str:
    """The parser's complaint in a user's words."""
    wrong = re.match(r'(?s)Parser key "(.+?)":\s*Expected an? (.+)\. Got value: (.*)', message)
    if wrong:
        name, kind, value = wrong.groups()
        choices = re.fullmatch(r"typing\.Literal\[(.+)\]", kind)
        expected = f"one of {choices[1]}" if choices else _TYPES.get(kind, kind)
        why = f" ({configuration.WHY_NOT[value]})" if value in configuration.WHY_NOT else ""
        return f"{name}: expected {expected.replace(chr(39), '')}{why}, got {value!r}"
    unknown = re.match(r"unrecognized arguments: (\S+)", message)
    if unknown and not unknown[1].startswith("-"):
        return f"unexpected argument {unknown[1]!r}"
    if unknown:
        return _unknown(unknown[1].partition("=")[0], "option", parser)
    unknown = re.match(r"Group '(.+)' does not accept option '(.+)'", message)
    if unknown:
        return _unknown(f"{unknown[1]}.{unknown[2]}", "field", parser)
    unknown = re.match(r"Option '(.+)' is not accepted", message)
    if unknown:
        return _unknown(unknown[1], "field", parser)
    if message.startswith("Unexpected config:"):
        found = message.partition(":")[2].strip() or "nothing"
        return f"expected fields such as 'train: {{max_steps: 100}}', found {found[:60]}"
    return re.sub(r'^(?:argument |Parser key "(.+?)":\s*)', _subject, message)


def _subject(start: re.Match[str]) -> str:
    return f"{start[1]}: " if start[1] else ""


def _unknown(name: str, kind: str, parser: Parser) -> str:
    """Name an unknown option or field, and what it may have been meant for."""
    prefix = "--" if kind == "option" else ""
    valid = [text[2:] for text in parser._option_string_actions if text.startswith("--")]
    valid = [text for text in valid if text not in parser.sections]
    bare = name.removeprefix("--")
    same_field = [text for text in valid if text.rpartition(".")[2] == bare.rpartition(".")[2]]
    near = same_field or difflib.get_close_matches(bare, valid, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(prefix + text for text in near)}?" if near else ""
    return f"unknown {kind} {name}{hint or ' (--help lists them)'}"
