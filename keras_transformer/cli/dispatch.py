"""The console script ``keras-translate``: one command for all entry points."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

from keras_transformer.cli import standard_streams
from keras_transformer.cli.main import fail

COMMANDS = {
    "train": "train a model on parallel text, or resume a run",
    "translate": "translate a file, or sentences that are typed",
    "evaluate": "measure BLEU, chrF2 and TER against references",
    "score": "score given translations",
    "convert": "make a run from a trained model of another system",
    "export": "export a run for TensorFlow Serving or CTranslate2",
    "serve": "serve an exported model on this machine",
    "lab": "reproduce the paper's choices, break them one by one, and report",
    "visualize": "draw attention, next tokens and search of a sentence, or a model's parts",
}
"""Entry points by name, which ``python -m keras_transformer.NAME`` also runs."""

PACKAGES = ("convert", "lab", "visualize")
"""Those that are packages, with their entry point in ``__main__``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the entry point named by the first argument; return its exit status."""
    standard_streams.prepare()
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(_manual())
        return 0
    name, *rest = words
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(COMMANDS)}"
        return fail("cli", f"unknown command {name!r}; {hint}")
    status: int = importlib.import_module(module_of(name)).main(rest)
    return status


def module_of(name: str) -> str:
    """Return the module of an entry point."""
    return f"keras_transformer.{name}" + (".__main__" if name in PACKAGES else "")


def _manual() -> str:
    lines = [f"  {name:12}{text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: keras-translate COMMAND [OPTION ...]",
            "",
            *lines,
            "",
            "keras-translate COMMAND --help lists the options of a command.",
        ]
    )
