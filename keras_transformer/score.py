"""Score given translations: ``python -m keras_transformer.score``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli import UsageError, build_parser, load_config
from keras_transformer.entry import add_run, load_translator, output, progress, run_main

MANUAL = """How probable a model finds translations that are given to it (forced decoding).

  python -m keras_transformer.score --run runs/en-de --source FILE.en --target FILE.de

One line of output for each pair: the natural logarithm of P(target | source), a tab, and the
number of target tokens, the end token counted in both. A higher logarithm is a better match;
divide by the tokens to compare sentences of different length."""


@run_main("score")
def main(argv: Sequence[str]) -> None:
    """Score pairs of lines."""
    parser = build_parser("score", MANUAL, ["search"])
    add_run(parser)
    parser.add_argument("--source", metavar="FILE", help="Sentences, UTF-8, .gz too.")
    parser.add_argument("--target", metavar="FILE", help="A translation of each of them.")
    parser.add_argument("--output", metavar="FILE", help="Where scores go; else stdout.")
    parser.add_argument(
        "--by_token",
        action="store_true",
        help="Add a third column: the logarithm for each token, separated by spaces.",
    )
    options = load_config(parser, argv)
    for name in ("source", "target"):
        if options.own[name] is None:
            raise UsageError(f"--{name} FILE is missing")
    from keras_transformer.data.corpus import read_lines

    sources = list(read_lines(Path(options.own.source)))
    targets = list(read_lines(Path(options.own.target)))
    if len(sources) != len(targets):
        raise UsageError(
            f"--source has {len(sources)} lines, --target has {len(targets)}: "
            "expected a target for each source"
        )
    translator = load_translator(options)
    with output(options.own.output) as stream, progress(len(sources)) as report:
        for score in translator.score(sources, targets, report):
            columns = [f"{score.log_probability:.4f}", str(score.tokens)]
            if options.own.by_token:
                columns.append(" ".join(f"{each:.4f}" for each in score.by_token))
            print("\t".join(columns), file=stream)


if __name__ == "__main__":
    sys.exit(main())
