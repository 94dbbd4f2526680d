"""Conversion of a checkpoint: ``python -m keras_transformer.convert``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.main import exit_on_signals, import_tensorflow, run_main
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import add_fields, bare_parser, parse
from keras_transformer.convert import registry
from keras_transformer.convert.settings import ConvertSettings

MANUAL = """Make a run folder from a trained model of another system. The run can be exported,
evaluated, scored with, visualized, and fine-tuned with train --init_from.

  python -m keras_transformer.convert opus-mt-en-de --run runs/en-de
      a folder or file; its format is recognised from its contents
  python -m keras_transformer.convert model.npz --from marian --run runs/en-de --dtype float16

Formats:
{formats}

Everything is checked before the run folder is written: every tensor of the source is used once,
every weight of the model is filled, shapes fit, tied matrices are equal, all numbers are finite.
A part that this package does not have is refused by its name. No code from a file runs. Ctrl-C and
SIGTERM leave nothing behind."""


@run_main("convert")
def main(argv: Sequence[str]) -> None:
    """Convert a checkpoint."""
    formats = "\n".join(f"  {name:12}{registry.load(name).DESCRIPTION}" for name in registry.NAMES)
    parser = bare_parser("convert", MANUAL.format(formats=formats), "SOURCE")
    parser.add_argument(
        "source", metavar="SOURCE", nargs="?", help="File or folder of the trained model."
    )
    parser.add_argument("--run", metavar="DIR", help="Run folder to create.")
    parser.add_argument(
        "--from", metavar="FORMAT", default="", help="Format of the source; left out: recognised."
    )
    add_fields(parser, ConvertSettings)
    values = parse(parser, argv)
    if not values.source:
        raise UsageError("SOURCE is missing: the file or folder of the trained model")
    if not values.run:
        raise UsageError("--run DIR is missing: the run folder to create")
    names = [item.name for item in dataclasses.fields(ConvertSettings)]
    settings = ConvertSettings(**{name: values[name] for name in names})
    from keras_transformer.convert.conversion import convert

    source, run = Path(values.source), Path(values.run)
    with exit_on_signals():
        convert(source, run, settings, values["from"], _log, import_tensorflow)


def _log(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
