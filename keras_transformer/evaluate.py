"""Evaluation against references: ``python -m keras_transformer.evaluate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from keras_transformer.cli import evaluation
from keras_transformer.cli.main import run_main
from keras_transformer.cli.options import build_parser, load_config
from keras_transformer.cli.trained_model import load_translator

MANUAL = """Translate held-out sentences with a run and score the result: BLEU, chrF2 and TER by
sacreBLEU, each with its signature.

  python -m keras_transformer.evaluate --run runs/en-de --source F.en --reference F.de [--json]
      line by line; several files after --reference are several references
  python -m keras_transformer.evaluate --run runs/phrasebook --data builtin:phrasebook:test
      a corpus; a repeated sentence is translated once, with all its references
  python -m keras_transformer.evaluate --run runs/en-de --source F.en --lowercase --moses \\
      --reference F.lc.norm.tok.de
      against published references that are lower-cased and tokenised
  python -m keras_transformer.evaluate --hypotheses A.de --against B.de --reference F.de \\
      --target_language de
      finished translations, no run needed; is A better than B?

Two outputs are compared by paired bootstrap resampling with 1,000 resamples.
--json prints one object: bleu, bleu_signature, chrf, chrf_signature, ter, ter_signature,
sentences, brevity_penalty, length_ratio, seconds (of translation, without loading) and
tokens_per_second (target tokens), both null with --hypotheses, and dropped, the number of pairs
with a blank side by reason, which are not scored; with --against also against, one comparison for
each of the three scores."""


@run_main("evaluate")
def main(argv: Sequence[str]) -> None:
    """Evaluate a run, or finished translations."""
    parser = build_parser("evaluate", MANUAL, ["search"])
    evaluation.add_options(parser)
    options = load_config(parser, argv)
    evaluation.check_options(options)
    result = evaluation.evaluate(options, load_translator)
    print(json.dumps(result) if options.own.json else evaluation.report(result))


if __name__ == "__main__":
    sys.exit(main())
