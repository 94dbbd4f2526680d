"""Translate lines of text: ``python -m keras_transformer.translate``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from jsonargparse import Namespace

from keras_transformer.cli.main import (
    add_run,
    add_speed,
    load_translator,
    output,
    place_of,
    progress,
    run_main,
    standard_input,
    watched,
    written,
)
from keras_transformer.cli.options import Parser, UsageError, build_parser, load_config
from keras_transformer.cli.resume_output import appended, skip

if TYPE_CHECKING:
    from keras_transformer.inference.attention_file import Add
    from keras_transformer.inference.translator import Progress, Translation, Translator

MANUAL = """Translate a file, or standard input, line by line; the order is kept.

  python -m keras_transformer.translate --run runs/en-de FILE > FILE.de
  python -m keras_transformer.translate --run runs/en-de
      type sentences; each is answered at once
  python -m keras_transformer.translate --run runs/en-de FILE --output FILE.de --append
      again after an interruption: goes on after the last whole line of FILE.de
  python -m keras_transformer.translate --run runs/en-de FILE --search.beam 5 --search.n_best 5 \\
      --scores
  python -m keras_transformer.translate --run runs/en-de FILE --search.sample true \\
      --search.top_p 0.9 --search.seed 7

One line of output for each line of input; a blank line stays blank. With --scores, the score
and a tab stand before the translation: its log-probability over its length penalty. With
search.n_best above 1 there is one line for each hypothesis, best first, which begins with the
number of its input line and a tab.

With --alignment, a tab and links follow the translation, such as 0-0 1-2: for each of its words,
in order, the word of the source that it comes from, source first, counted from 0. A word is what
stands between spaces. It is linked by the attention of its pieces: the mean over the heads of
the last decoder layer but one. For languages without spaces there is --pieces.
--attention FILE.npz holds the attention itself: for line N, counted from 1, attention_N with a
row for each piece of the translation and a column for each of the source, and the pieces in
target_N and source_N; </s> is the end of a sentence."""


SOME_LINES = 5
"""Lines that a warning names, of more that it counts."""


@run_main("translate")
def main(argv: Sequence[str]) -> None:
    """Translate lines."""
    parser = build_parser("translate", MANUAL, ["search"])
    _add_options(parser)
    options = load_config(parser, argv)
    own = options.own
    _check(own)
    translator = load_translator(options)
    several = translator.search.n_best > 1
    if several and (own.alignment or own.attention):
        raise UsageError(
            f"--alignment and --attention: expected search.n_best 1, got {translator.search.n_best}"
        )
    total = _total(own)
    with (
        _destination(own, several) as (stream, done),
        _attention(own.attention) as add,
        progress(total, done=done, elsewhere=own.output is not None) as report,
    ):
        found = _translations(translator, own, done, report)
        unfinished: list[int] = []
        for number, translation in enumerate(found, start=done + 1):
            add(number, translation.attention)
            if not translation.finished:
                unfinished.append(number)
            for text in rows(translation, own, number if several else None):
                stream.write(f"{text}\n")
            # Whoever reads along, or kills this process, finds whole lines.
            stream.flush()
    if unfinished:
        print(_told(unfinished), file=sys.stderr)


def _told(unfinished: Sequence[int]) -> str:
    """The warning about translations of these lines, which came to no end."""
    named = ", ".join(map(str, unfinished[:SOME_LINES]))
    more = ", ..." if len(unfinished) > SOME_LINES else ""
    kind = "translation" if len(unfinished) == 1 else "translations"
    return (
        f"{len(unfinished)} {kind} stopped at the greatest length (search.max_extra) without an "
        f"end: of line {named}{more}"
    )


def _add_options(parser: Parser) -> None:
    add_run(parser)
    add_speed(parser)
    add = parser.add_argument
    add("file", nargs="?", help="Text to translate, UTF-8, .gz too; else stdin.")
    add("--output", metavar="FILE", help="Where translations go; else stdout.")
    add(
        "--append",
        action="store_true",
        help="Go on with --output: as many lines of input are skipped as it has. A last line "
        "that is not whole is cut off first. The file then grows line by line; without --append "
        "it appears when all is done.",
    )
    add("--prefix", metavar="FILE", help="What each translation must begin with, a line each.")
    add("--scores", action="store_true", help="Print scores too.")
    add("--alignment", action="store_true", help="Print links between words too.")
    add(
        "--pieces",
        action="store_true",
        help="With --alignment: link the tokenizer's pieces instead of words, and print the "
        "pieces of source and translation in two more columns.",
    )
    add("--attention", metavar="FILE.npz", help="Save attention and pieces of each line.")


def _check(own: Namespace) -> None:
    """Refuse options that contradict each other or leave out what is needed."""
    if own.append and own.output is None:
        raise UsageError("--append goes on with a file: --output FILE is missing")
    if own.append and own.attention is not None:
        raise UsageError("expected --append or --attention, not both: FILE.npz is written whole")
    if own.pieces and not own.alignment:
        raise UsageError("--pieces says what --alignment links: --alignment is missing")


def _total(own: Namespace) -> int | None:
    """Lines of the input, where that is of use and reading them twice is possible."""
    if own.file is None or not Path(own.file).is_file():
        return None
    if own.prefix is None and not watched(own.output is not None):
        return None
    from keras_transformer.data.lines import read_lines

    total = sum(1 for _ in read_lines(own.file))
    if own.prefix is not None and Path(own.prefix).is_file():
        prefixes = sum(1 for _ in read_lines(own.prefix))
        if prefixes != total:
            raise UsageError(
                f"--prefix {own.prefix}: expected a line for each of the {total} lines of "
                f"{own.file}, got {prefixes}"
            )
    return total


@contextlib.contextmanager
def _destination(own: Namespace, several: bool) -> Iterator[tuple[TextIO, int]]:
    """Where translations go, and the lines of input that are done there."""
    if own.append:
        with appended(place_of(own.output, "--output"), several) as (stream, done):
            yield stream, done
    else:
        with output(own.output) as stream:
            yield stream, 0


@contextlib.contextmanager
def _attention(path: str | None) -> Iterator[Add]:
    """Where attention goes."""
    if path is None:
        yield lambda number, attention: None
        return
    from keras_transformer.inference.attention_file import attention_file

    with written(path, "--attention") as place, attention_file(place) as add:
        yield add


def _translations(
    translator: Translator, own: Namespace, done: int, report: Progress | None
) -> Iterator[Translation]:
    """The translations of the lines that are left."""
    from keras_transformer.data.lines import read_lines
    from keras_transformer.inference.translator import WINDOW

    talking = own.file is None and sys.stdin.isatty()
    if talking:
        print("Type sentences; Ctrl-D ends.", file=sys.stderr)
    lines = standard_input() if own.file is None else read_lines(Path(own.file))
    prefixes = None if own.prefix is None else read_lines(Path(own.prefix))
    return translator.translate_stream(
        skip(lines, done, "input"),
        1 if talking else WINDOW,
        report,
        done + 1,
        prefixes=None if prefixes is None else skip(prefixes, done, "--prefix"),
        attention=bool(own.alignment or own.attention),
    )


def rows(translation: Translation, own: Namespace, number: int | None) -> Iterator[str]:
    """The lines of output for one line of input.

    Args:
        translation: What became of it.
        own: The columns wanted: ``scores``, ``alignment``, ``pieces``.
        number: Number of the input line, where its alternatives are wanted.
    """
    found = [(translation.text, translation.score)]
    if number is not None:
        found += [(other.text, other.score) for other in translation.alternatives]
    for text, score in found:
        columns = [str(number)] if number is not None else []
        columns += [f"{score:.4f}"] if own.scores else []
        columns.append(text)
        if own.alignment:
            columns += _alignment(translation, bool(own.pieces))
        yield "\t".join(columns)


def _alignment(translation: Translation, pieces: bool) -> list[str]:
    """The columns of ``--alignment``."""
    attention = translation.attention
    if attention is None:  # a blank line
        return [""] * (3 if pieces else 1)
    links = attention.piece_links if pieces else attention.links
    columns = [" ".join(f"{source}-{target}" for source, target in links)]
    if pieces:
        columns.append(" ".join(attention.source_pieces))
        columns.append(" ".join(attention.target_pieces))
    return columns


if __name__ == "__main__":
    sys.exit(main())
