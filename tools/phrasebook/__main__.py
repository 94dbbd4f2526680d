"""Command that generates the built-in corpus and writes its compressed file."""

from __future__ import annotations

import argparse
import bz2
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.streams import output_file
from keras_transformer.data.phrasebook import FILE

from .sentences import splits


def generate() -> str:
    """Return the text of the corpus: the columns split, English, Chinese, blank lines between."""
    rows = [(split, *pair) for split, pairs in splits().items() for pair in pairs]
    return "\n\n".join("\n".join(column) for column in zip(*rows, strict=True)) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate the corpus and write it."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.phrasebook", description="Generate the built-in corpus and write it."
    )
    parser.add_argument(
        "--to", type=Path, default=FILE, metavar="FILE", help="default: the file of the package"
    )
    path = parser.parse_args(arguments).to
    compressed = bz2.compress(generate().encode(), compresslevel=9)
    with output_file(str(path), "--to") as stream:
        stream.write(compressed)
    print(f"{path}: {len(compressed):,} bytes")


if __name__ == "__main__":
    main()
