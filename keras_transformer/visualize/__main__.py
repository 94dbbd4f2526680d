"""Pictures of a trained model: ``python -m keras_transformer.visualize``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import Namespace

from keras_transformer.cli.main import run_main
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser, add_number, build_parser, load_config
from keras_transformer.cli.trained_model import add_run, load_translator, run_path
from keras_transformer.optional_dependencies import require_installed
from keras_transformer.validation import between
from keras_transformer.visualize.files import EXTENSIONS, create_folder, save_pictures

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator
    from keras_transformer.visualize.attention_view import AttentionView

MANUAL = """Draw what a trained model does with a sentence, or the parts of the model.

  python -m keras_transformer.visualize --run runs/phrasebook "How are you?"
      attention.html: hover or tap a word to see where it looks; choose layer and head; next
      tokens, hypothesis tree. cross.png, encoder.png, decoder.png: attention by layer and head.
      heads.png, rollout.png, next_tokens.png, beam.svg
  python -m keras_transformer.visualize --run runs/phrasebook "How are you?" --target "你好吗？"
      the same for a given translation
  python -m keras_transformer.visualize --run runs/phrasebook "He is here." \\
      --compare "She is here."
      two sentences side by side and the difference of their maps: comparison.html, and a picture
      for each attention; --compare_run DIR compares two runs with one sentence
  python -m keras_transformer.visualize --run runs/phrasebook --model
      positions.png, schedules.png, masks.png, neighbours.png; no sentence is needed

The names of the written files are printed; existing files of these names are replaced. The
translation is the best of a beam search, even if search.sample is true. Pictures need Matplotlib;
the HTML page and beam.svg do not.
Attention shows where a head looks, not why a word was chosen."""

_TOP_K = between(1, 20)


@run_main("visualize")
def main(argv: Sequence[str]) -> None:
    """Write pictures."""
    parser = build_parser("visualize", MANUAL, ["search"])
    _add_options(parser)
    options = load_config(parser, argv)
    options.own.sentence = _sentence(options.own.words_of_sentence)
    _check(options.own)
    if options.own.model:
        require_installed("--model", ["matplotlib"])
    _check_runs(options)  # before the slow import
    folder = Path(options.own.to)
    create_folder(folder)
    translator = load_translator(_run_options(options, options.own.run))
    paths = _draw_model(translator, options.own, folder) if options.own.model else []
    if options.own.sentence is not None:
        paths += _draw_sentences(translator, options, folder)
    for path in paths:
        print(path)


def _add_options(parser: Parser) -> None:
    add_run(parser)
    parser.texts = ("words_of_sentence", "target", "compare", "words")
    add = parser.add_argument
    add(
        "words_of_sentence",
        nargs="*",
        default=[],
        metavar="SENTENCE",
        help="Sentence of the source language, in quotes.",
    )
    add("--target", metavar="TEXT", help="Given translation; default: the model's own.")
    add("--to", metavar="FOLDER", default="pictures", help="Folder of the files.")
    add("--compare", metavar="SENTENCE", help="Second sentence, drawn beside the first.")
    add("--compare_run", metavar="DIR", help="Second run, with the same sentence and translation.")
    add("--model", action="store_true", help="Draw the parts of the model.")
    add(
        "--words",
        nargs="+",
        metavar="WORD",
        help="With --model: words whose nearest embeddings are drawn; default: frequent ones.",
    )
    add(
        "--format",
        choices=list(EXTENSIONS),
        default="png",
        help="Format of the pictures. Text in SVG stays text.",
    )
    add_number(parser, "top_k", _TOP_K, help="Next tokens listed at each position.", default=5)


def _sentence(words: Sequence[str] | None) -> str | None:
    """Return the sentence; a forgotten pair of quotes makes several words of it."""
    if words and len(words) > 1:
        raise UsageError(f'expected one sentence in quotes, such as "{" ".join(words)}"')
    return words[0] if words else None


def _check(own: Namespace) -> None:
    """Refuse contradictory and incomplete options."""
    if own.sentence is None and not own.model:
        raise UsageError('a sentence is missing, such as "How are you?" (or --model)')
    for name in ("target", "compare", "compare_run"):
        if own[name] is not None and own.sentence is None:
            raise UsageError(f"--{name} belongs to a sentence, which is missing")
    for name in ("sentence", "target", "compare"):
        if own[name] is not None and not own[name].strip():
            raise UsageError(f"{name}: expected text, got {own[name]!r}")
    if own.compare is not None and own.compare_run is not None:
        raise UsageError("expected --compare or --compare_run, not both")
    if own.words and not own.model:
        raise UsageError("--words belongs to --model, which is missing")


def _check_runs(options: Options) -> None:
    """Refuse runs without weights, before anything is written."""
    from keras_transformer.run import Run

    Run.open(run_path(options)).check_weights()
    if options.own.compare_run is not None:
        Run.open(options.own.compare_run).check_weights()


def _run_options(options: Options, run: str | None) -> Options:
    """Return the options for the translator of a run."""
    own = Namespace(run=run, dtype="float32", workers=1, config=options.own.config)
    return Options(own, options.preset, options.given)


def _draw_sentences(translator: Translator, options: Options, folder: Path) -> list[Path]:
    from keras_transformer.visualize.attention_view import attention
    from keras_transformer.visualize.comparison import compare

    own = options.own

    def view(model: Translator, sentence: str, target: str | None) -> AttentionView:
        return attention(model, sentence, target, top_k=own.top_k)

    first = view(translator, own.sentence, own.target)
    if own.compare is not None:
        second = view(translator, own.compare, None)
        names = own.sentence, own.compare
        return compare(first, second, names).save(folder, own.format)
    if own.compare_run is not None:
        other = load_translator(_run_options(options, own.compare_run))
        # With one target the rows of both maps correspond.
        second = view(other, own.sentence, own.target or first.translation)
        comparison = compare(first, second, (own.run, own.compare_run), of_runs=True)
        return comparison.save(folder, own.format)
    return first.save(folder, own.format)


def _draw_model(translator: Translator, own: Namespace, folder: Path) -> list[Path]:
    from keras_transformer.visualize.embedding_neighbours import neighbours
    from keras_transformer.visualize.masks import masks_figure
    from keras_transformer.visualize.positions import model_positions_figure
    from keras_transformer.visualize.schedules import schedules_figure

    found = neighbours(translator, own.words)
    pictures = {
        "positions": lambda: model_positions_figure(translator.model),
        "schedules": schedules_figure,
        "masks": masks_figure,
        "neighbours": found.figure,
    }
    return save_pictures(folder, pictures, own.format)


if __name__ == "__main__":
    sys.exit(main())
