"""Score given translations: ``python -m keras_transformer.score``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.main import (
    add_run,
    add_speed,
    load_translator,
    output,
    progress,
    run_main,
)
from keras_transformer.cli.options import UsageError, build_parser, load_config

MANUAL = """How probable a model finds translations that are given to it (forced decoding).

  python -m keras_transformer.score --run runs/en-de --source FILE.en --target FILE.de

One line of output for each pair: the natural logarithm of P(target | source), a tab, and the
number of target tokens, the end token counted in both. A higher logarithm is a better match;
divide by the tokens to compare sentences of different length. With --tokens a third column
holds each token and its logarithm, such as ▁Ein:-0.1204 ▁Hund:-0.0311 </s>:-0.0018; ▁ stands
for a space."""


@run_main("score")
def main(argv: Sequence[str]) -> None:
    """Score pairs of lines."""
    parser = build_parser("score", MANUAL, ["search"])
    add_run(parser)
    add_speed(parser)
    parser.add_argument("--source", metavar="FILE", help="Sentences, UTF-8, .gz too.")
    parser.add_argument("--target", metavar="FILE", help="A translation of each of them.")
    parser.add_argument("--output", metavar="FILE", help="Where scores go; else stdout.")
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="Add a third column: each token and its logarithm.",
    )
    options = load_config(parser, argv)
    for name in ("source", "target"):
        if options.own[name] is None:
            raise UsageError(f"--{name} FILE is missing")
    from keras_transformer.data.lines import read_lines

    sources = list(read_lines(Path(options.own.source)))
    targets = list(read_lines(Path(options.own.target)))
    if len(sources) != len(targets):
        raise UsageError(
            f"--source has {len(sources)} lines, --target has {len(targets)}: "
            "expected a target for each source"
        )
    translator = load_translator(options)
    elsewhere = options.own.output is not None
    with (
        output(options.own.output) as stream,
        progress(len(sources), elsewhere=elsewhere) as report,
    ):
        for score in translator.score(sources, targets, report):
            columns = [f"{score.log_probability:.4f}", str(score.tokens)]
            if options.own.tokens:
                each = zip(score.pieces, score.by_token, strict=True)
                columns.append(" ".join(f"{piece}:{value:.4f}" for piece, value in each))
            print("\t".join(columns), file=stream)


if __name__ == "__main__":
    sys.exit(main())
