"""Translation at the command line: options, input, output columns and warnings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from jsonargparse import Namespace

from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser
from keras_transformer.cli.resume_output import continue_output
from keras_transformer.cli.standard_streams import require_output
from keras_transformer.cli.streams import (
    check_outputs,
    descriptor,
    input_lines,
    is_terminal,
    output,
    output_file,
    output_path,
    progress,
    shows_progress,
)
from keras_transformer.cli.trained_model import add_translator, files_read
from keras_transformer.data.lines import LineStream, read_lines

if TYPE_CHECKING:
    from keras_transformer.inference.attention_file import AddLine
    from keras_transformer.inference.translator import Progress, Translation, Translator

NAMED_LINES = 5
"""Lines that a warning names; it counts the others."""


def add_options(parser: Parser) -> None:
    """Add the options of ``translate``."""
    add_translator(parser)
    add = parser.add_argument
    add("file", nargs="?", help="Text to translate, UTF-8, .gz too; left out: standard input.")
    add("--output", metavar="FILE", help="Output file; left out: standard output.")
    add(
        "--append",
        action="store_true",
        help="Continue the file of --output: remove an incomplete last line, skip the input lines "
        "that are done, and write line by line. Without --append the file appears when all is "
        "done.",
    )
    add("--prefix", metavar="FILE", help="Beginnings of the translations, line by line.")
    add("--scores", action="store_true", help="Print scores too.")
    add("--alignment", action="store_true", help="Print links between words too.")
    add(
        "--pieces",
        action="store_true",
        help="With --alignment: link subword pieces instead of words, and print the pieces of "
        "source and translation in two more columns.",
    )
    add("--attention", metavar="FILE.npz", help="Save attention and pieces of each line.")


def check_options(options: Options) -> None:
    """Refuse contradictory and incomplete options.

    Raises:
        UsageError: Names the options.
    """
    own = options.own
    if own.append and own.output is None:
        raise UsageError("--append continues a file: --output FILE is missing")
    if own.append and own.attention is not None:
        raise UsageError("expected --append or --attention, not both: FILE.npz is written whole")
    if own.pieces and not own.alignment:
        raise UsageError("--pieces changes the links of --alignment: --alignment is missing")
    if own.output is None:
        require_output()
    elif own.append and descriptor(own.output) is not None:
        raise UsageError(f"--append: expected the name of a file, got the descriptor {own.output}")
    texts = [own.file] if own.prefix is None else [own.file, own.prefix]
    outputs = {"--output": own.output, "--attention": own.attention}
    check_outputs(outputs, [*texts, *files_read(options)])


def translate_lines(translator: Translator, own: Namespace) -> None:
    """Translate the input line by line, and warn of translations without an end token.

    Args:
        translator: The trained model.
        own: The options of `add_options`.

    Raises:
        UserError: An option, the input or the output cannot be used.
    """
    numbered = translator.search.n_best > 1
    if numbered and (own.alignment or own.attention):
        raise UsageError(
            f"--alignment and --attention: expected search.n_best 1, got {translator.search.n_best}"
        )
    total = _count_lines(own)
    unfinished: list[int] = []
    prefixes = None if own.prefix is None else read_lines(Path(own.prefix))
    with (
        input_lines(own.file) as lines,
        _output(own, numbered, lines, prefixes) as (stream, done),
        _attention_output(own.attention) as add_attention,
        progress(total, done=done, to_file=_is_to_file(own)) as report,
    ):
        translations = _translations(translator, own, lines, prefixes, done, report)
        for number, translation in enumerate(translations, start=done + 1):
            add_attention(number, translation.attention)
            if not translation.finished:
                unfinished.append(number)
            for row in rows(translation, own, number if numbered else None):
                stream.write(f"{row}\n")
            stream.flush()  # a reader, or a later --append, finds complete lines
    if unfinished:
        print(_warning(unfinished), file=sys.stderr)


def _warning(unfinished: Sequence[int]) -> str:
    numbers = ", ".join(map(str, unfinished[:NAMED_LINES]))
    more = ", ..." if len(unfinished) > NAMED_LINES else ""
    translations, lines = "translations", "lines"
    if len(unfinished) == 1:
        translations, lines = "translation", "line"
    return (
        f"{len(unfinished)} {translations} stopped at the length limit (search.max_extra, "
        f"search.max_length) without an end token: {lines} {numbers}{more}"
    )


def _is_to_file(own: Namespace) -> bool:
    return own.output is not None and not is_terminal(own.output)


def _count_lines(own: Namespace) -> int | None:
    """Count the input lines if that is useful and the input can be read twice."""
    if own.file is None or not Path(own.file).is_file():
        return None
    if own.prefix is None and not shows_progress(_is_to_file(own)):
        return None
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
def _output(
    own: Namespace,
    numbered: bool,
    lines: LineStream | Iterator[str],
    prefixes: Iterator[str] | None,
) -> Iterator[tuple[TextIO, int]]:
    """Open the output; yield the stream and the number of input lines done before and skipped."""
    if own.append:
        inputs = {"input": iter(lines)} | ({} if prefixes is None else {"--prefix": prefixes})
        path = output_path(own.output, "--output")
        with continue_output(path, numbered, inputs) as (stream, done):
            yield stream, done
    else:
        with output(own.output) as stream:
            yield stream, 0


@contextlib.contextmanager
def _attention_output(path: str | None) -> Iterator[AddLine]:
    """Yield the function that saves the attention of a line."""
    if path is None:
        yield lambda number, attention: None
        return
    from keras_transformer.inference.attention_file import attention_file

    with output_file(path, "--attention") as file, attention_file(file) as add:
        yield add


def _translations(
    translator: Translator,
    own: Namespace,
    lines: LineStream | Iterator[str],
    prefixes: Iterator[str] | None,
    done: int,
    report: Progress | None,
) -> Iterator[Translation]:
    """Translate the lines, of which ``done`` have been skipped."""
    from keras_transformer.inference.translator import WINDOW

    interactive = own.file is None and sys.stdin.isatty()
    if interactive:
        print("Type sentences; Ctrl-D ends.", file=sys.stderr)
    return translator.translate_stream(
        lines,
        1 if interactive else WINDOW,
        report,
        done + 1,
        prefixes=prefixes,
        attention=bool(own.alignment or own.attention),
        # A program may wait for its translations before it writes more.
        ready=lines.ready if isinstance(lines, LineStream) else lambda: True,
    )


def rows(translation: Translation, own: Namespace, number: int | None) -> Iterator[str]:
    """Yield the output lines of one input line.

    Args:
        translation: The translation.
        own: The options that choose columns: ``scores``, ``alignment``, ``pieces``.
        number: Number of the input line if its alternatives are printed too, else None.
    """
    hypotheses = [(translation.text, translation.score)]
    if number is not None:
        hypotheses += [(other.text, other.score) for other in translation.alternatives]
    for text, score in hypotheses:
        columns = [str(number)] if number is not None else []
        columns += [f"{score:.4f}"] if own.scores else []
        columns.append(text)
        if own.alignment:
            columns += _alignment(translation, bool(own.pieces))
        yield "\t".join(columns)


def _alignment(translation: Translation, pieces: bool) -> list[str]:
    attention = translation.attention
    if attention is None:  # a blank line
        return [""] * (3 if pieces else 1)
    links = attention.piece_links if pieces else attention.links
    columns = [" ".join(f"{source}-{target}" for source, target in links)]
    if pieces:
        columns.append(" ".join(attention.source_pieces))
        columns.append(" ".join(attention.target_pieces))
    return columns
