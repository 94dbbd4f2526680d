"""Translate lines of text: ``python -m keras_transformer.translate``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli import build_parser, load_config
from keras_transformer.entry import (
    add_run,
    load_translator,
    output,
    progress,
    run_main,
    standard_input,
)

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translation

MANUAL = """Translate a file, or standard input, line by line; the order is kept.

  python -m keras_transformer.translate --run runs/en-de FILE > FILE.de
  python -m keras_transformer.translate --run runs/en-de
      type sentences; each is answered at once
  python -m keras_transformer.translate --run runs/en-de FILE --search.beam 5 --search.n_best 5 \\
      --scores

One line of output for each line of input; a blank line stays blank. With --scores, the score
and a tab stand before the translation: its log-probability over its length penalty. With
search.n_best above 1 there is one line for each hypothesis, best first, which begins with the
number of its input line and a tab."""


@run_main("translate")
def main(argv: Sequence[str]) -> None:
    """Translate lines."""
    parser = build_parser("translate", MANUAL, ["search"])
    add_run(parser)
    parser.add_argument("file", nargs="?", help="Text to translate, UTF-8, .gz too; else stdin.")
    parser.add_argument("--output", metavar="FILE", help="Where translations go; else stdout.")
    parser.add_argument("--scores", action="store_true", help="Print scores too.")
    options = load_config(parser, argv)
    translator = load_translator(options)
    from keras_transformer.data.corpus import read_lines
    from keras_transformer.inference.translator import WINDOW

    path = options.own.file
    talking = path is None and sys.stdin.isatty()
    if talking:
        print("Type sentences; Ctrl-D ends.", file=sys.stderr)
    lines = standard_input() if path is None else read_lines(Path(path))
    with output(options.own.output) as stream, progress(None) as report:
        translations = translator.translate_stream(lines, 1 if talking else WINDOW, report)
        for number, translation in enumerate(translations, start=1):
            several = translator.search.n_best > 1
            for text in rows(translation, bool(options.own.scores), number if several else None):
                print(text, file=stream, flush=talking)


def rows(translation: Translation, scores: bool, number: int | None) -> Iterator[str]:
    """The lines of output for one line of input.

    Args:
        translation: What became of it.
        scores: Put the score before the text.
        number: Number of the input line, where its alternatives are wanted.
    """
    found = [(translation.text, translation.score)]
    if number is not None:
        found += [(other.text, other.score) for other in translation.alternatives]
    for text, score in found:
        columns = [str(number)] if number is not None else []
        columns += [f"{score:.4f}"] if scores else []
        yield "\t".join([*columns, text])


if __name__ == "__main__":
    sys.exit(main())
