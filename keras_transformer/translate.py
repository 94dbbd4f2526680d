"""Translation of text lines: ``python -m keras_transformer.translate``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from keras_transformer.cli import translation
from keras_transformer.cli.main import run_main
from keras_transformer.cli.options import build_parser, load_config
from keras_transformer.cli.trained_model import load_translator

MANUAL = """Translate a file or standard input line by line, in order.

  python -m keras_transformer.translate --run runs/en-de FILE > FILE.de
  python -m keras_transformer.translate --run runs/en-de
      type sentences; each is translated at once. The same in a pipe, when no more comes at once
  python -m keras_transformer.translate --run runs/en-de FILE --output FILE.de --append
      continue an interrupted translation after the last complete line of FILE.de
  python -m keras_transformer.translate --run runs/en-de FILE --search.beam 5 --search.n_best 5 \\
      --scores
  python -m keras_transformer.translate --run runs/en-de FILE --search.sample true \\
      --search.top_p 0.9 --search.seed 7

Each input line gives one output line; a blank line stays blank. --scores puts the score and a tab
before the translation: its log-probability divided by the length penalty. With search.n_best
above 1 each hypothesis has its own line, best first, which begins with the number of the input
line and a tab.

--alignment adds a tab and links such as 0-0 1-2 after the translation: source word, target word,
counted from 0, in the order of the target. Words are separated by spaces. Links come from the
attention of their subword pieces: the mean over the heads of the penultimate decoder layer.
For languages without spaces use --pieces.
--attention FILE.npz saves the attention itself. For line N, counted from 1, attention_N has a row
for each piece of the translation and a column for each piece of the source; target_N and source_N
hold the pieces; </s> is the end of a sentence."""


@run_main("translate")
def main(argv: Sequence[str]) -> None:
    """Translate lines."""
    parser = build_parser("translate", MANUAL, ["search"])
    translation.add_options(parser)
    options = load_config(parser, argv)
    translation.check_options(options)
    translation.translate_lines(load_translator(options), options.own)


if __name__ == "__main__":
    sys.exit(main())
