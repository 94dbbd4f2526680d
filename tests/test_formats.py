from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from keras_transformer import formats
from keras_transformer.formats import FormatError, check_format

ROOT = Path(__file__).resolve().parents[1]
FILE = Path("versions.json")


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == (formats.PACKAGE, formats.VERSION)
    assert formats.versions()[formats.PACKAGE] == formats.VERSION


@pytest.mark.parametrize("values", [{}, {"format_number": 1}, {"format_number": 2}])
def test_earlier_formats_are_read(values: dict[str, int]) -> None:
    check_format(FILE, values, {}, 2)


@pytest.mark.parametrize(
    ("versions", "needed"),
    [
        ({"keras-translate": "1.2"}, "install keras-translate 1.2 or later"),
        ({}, "install a later version of keras-translate"),
        (None, "install a later version of keras-translate"),
    ],
)
def test_a_later_format_names_the_version_that_reads_it(versions: Any, needed: str) -> None:
    with pytest.raises(FormatError, match=f"versions.json: .* got format 3, .* {needed}$"):
        check_format(FILE, {"format_number": 3}, versions, 2)


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "1", None])
def test_other_numbers_are_refused(number: object) -> None:
    with pytest.raises(FormatError, match="expected a whole number from 1 on"):
        check_format(FILE, {"format_number": number}, {}, 2)
