"""Private parts of jsonargparse: each one exists and does what the command line needs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from jsonargparse import ArgumentParser, set_parsing_settings

from keras_transformer.compat import jsonargparse as compat
from keras_transformer.compat.jsonargparse import ParseError


@dataclass
class Oven:
    """An oven."""

    degrees: int = 180
    """Temperature."""
    fan: Literal["on", "off"] = "off"
    """Fan."""
    timer: int | None = None
    """Minutes."""


@pytest.fixture
def parser() -> ArgumentParser:
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(
        prog="cook",
        description="Keep\n  this layout.",
        formatter_class=compat.ManualFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_class_arguments(Oven, "oven")
    parser.add_argument("--quiet", action="store_true", help="No words.")
    parser.add_argument("--label", metavar="TEXT", help="A label.")
    return parser


def test_options_are_listed(parser: ArgumentParser) -> None:
    destinations = [action.dest for action in compat.actions(parser)]
    assert {"oven", "oven.degrees", "oven.fan", "quiet", "label"} <= set(destinations)
    names = compat.long_options(parser)
    assert {"--oven", "--oven.degrees", "--oven.fan", "--quiet", "--label"} <= set(names)
    assert "-h" not in names


def test_help_keeps_the_layout_and_omits_empty_defaults(parser: ArgumentParser) -> None:
    text = parser.format_help()
    assert "Keep\n  this layout." in text
    joined = " ".join(text.split())
    assert "Temperature. (type: int, default: 180)" in joined
    assert "No words. " in f"{joined} "
    assert "A label." in joined
    assert "Minutes. (type: int | null)" in joined
    assert "default: False" not in joined


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--oven.degree=3", ParseError("option", "--oven.degree")),
        ("cake", ParseError("argument", "cake")),
        ("--label", ParseError("other", "", "--label: expected one argument")),
    ],
)
def test_errors_of_the_command_line_are_read(
    parser: ArgumentParser, words: str, expected: ParseError
) -> None:
    with pytest.raises(argparse.ArgumentError) as caught:
        parser.parse_args(words.split())
    assert compat.read_error(str(caught.value)) == expected


def test_texts_are_read_by_the_given_function(parser: ArgumentParser) -> None:
    def read(text: str) -> int:
        if not text.isdecimal():
            raise ValueError(f"degrees: not {text}")
        return int(text)

    (degrees,) = (each for each in compat.actions(parser) if each.dest == "oven.degrees")
    compat.read_with(degrees, read)
    assert parser.parse_args(["--oven.degrees=012"]).oven.degrees == 12  # YAML 1.1 reads 10
    assert parser.parse_args([]).oven.degrees == 180
    with pytest.raises(argparse.ArgumentError) as caught:
        parser.parse_args(["--oven.degrees", "1:30"])
    assert compat.read_error(str(caught.value)) == ParseError("other", "", "degrees: not 1:30")


def test_a_removed_option_is_unknown(parser: ArgumentParser) -> None:
    assert parser.parse_args(["--oven", "{degrees: 5}"]).oven.degrees == 5
    compat.remove_option(parser, "--oven")
    with pytest.raises(argparse.ArgumentError, match="unrecognized arguments: --oven"):
        parser.parse_args(["--oven", "{degrees: 5}"])
    assert parser.parse_args(["--oven.degrees", "5"]).oven.degrees == 5
    assert "--oven CONFIG" not in parser.format_help()


def test_only_this_module_reaches_into_private_parts() -> None:
    package = Path(compat.__file__).parents[1]
    found = [
        path.name
        for path in package.rglob("*.py")
        if any(
            name in path.read_text(encoding="utf-8")
            for name in ("._actions", "._option_string_actions", "_expand_help", "._check_type")
        )
    ]
    assert found == ["jsonargparse.py"]
