"""Scores of given translations: ``python -m keras_transformer.score``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli.main import run_main
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser, build_parser, load_config
from keras_transformer.cli.standard_streams import require_output
from keras_transformer.cli.streams import check_outputs, is_terminal, output, progress
from keras_transformer.cli.trained_model import add_translator, files_read, load_translator

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Score

MANUAL = """Score given translations with a model (forced decoding).

  python -m keras_transformer.score --run runs/en-de --source FILE.en --target FILE.de

Each pair gives one output line: the natural logarithm of P(target | source), a tab, and the number
of target tokens; both include the end token. A higher logarithm is a better match; divide it by
the tokens to compare sentences of different length. --tokens adds a third column with each token
and its logarithm, such as ▁Ein:-0.1204 ▁Hund:-0.0311 </s>:-0.0018; ▁ stands for a space."""


@run_main("score")
def main(argv: Sequence[str]) -> None:
    """Score pairs of lines."""
    parser = build_parser("score", MANUAL, ["search"])
    _add_options(parser)
    options = load_config(parser, argv)
    own = options.own
    if own.output is None:
        require_output()
    check_outputs({"--output": own.output}, [own.source, own.target, *files_read(options)])
    sources, targets = _read_pairs(options)
    translator = load_translator(options)
    to_file = own.output is not None and not is_terminal(own.output)
    with output(own.output) as stream, progress(len(sources), to_file=to_file) as report:
        for score in translator.score(sources, targets, report):
            print("\t".join(_columns(score, bool(own.tokens))), file=stream)


def _add_options(parser: Parser) -> None:
    add_translator(parser)
    add = parser.add_argument
    add("--source", metavar="FILE", help="Sentences, UTF-8, .gz too.")
    add("--target", metavar="FILE", help="One translation for each sentence.")
    add("--output", metavar="FILE", help="Output file; left out: standard output.")
    add("--tokens", action="store_true", help="Add a column: each token and its logarithm.")


def _read_pairs(options: Options) -> tuple[list[str], list[str]]:
    for name in ("source", "target"):
        if options.own[name] is None:
            raise UsageError(f"--{name} FILE is missing")
    from keras_transformer.data.cleaning import CleaningReport, blank_sides
    from keras_transformer.data.lines import read_lines

    sources = list(read_lines(Path(options.own.source)))
    targets = list(read_lines(Path(options.own.target)))
    if len(sources) != len(targets):
        raise UsageError(
            f"--source has {len(sources)} lines, --target has {len(targets)}: "
            "expected a target for each source"
        )
    report = CleaningReport()
    for line, pair in enumerate(zip(sources, targets, strict=True), start=1):
        if blank := blank_sides(*pair):
            report.count(f"{blank}, scored as the end token alone", line, drop=False)
    for text in report.lines()[1:]:  # line by line: each keeps its line of the output
        print(text, file=sys.stderr)
    return sources, targets


def _columns(score: Score, tokens: bool) -> Iterator[str]:
    yield f"{score.log_probability:.4f}"
    yield str(score.tokens)
    if tokens:
        each = zip(score.pieces, score.by_token, strict=True)
        yield " ".join(f"{piece}:{value:.4f}" for piece, value in each)


if __name__ == "__main__":
    sys.exit(main())
