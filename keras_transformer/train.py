"""Train a translator from parallel text: ``python -m keras_transformer.train``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli import SECTIONS, Options, UsageError, build_parser, load_config
from keras_transformer.entry import import_tensorflow, run_main

MANUAL = """Train a Transformer on parallel text; everything lands in a run folder.

  python -m keras_transformer.train
      the built-in English-Chinese corpus, minutes on two cores
  python -m keras_transformer.train --preset tiny --data.train DIR/train --data.dev DIR/val \\
      --data.source en --data.target de --run runs/en-de
      your own text: DIR/train.en and DIR/train.de, DIR/val.en and DIR/val.de
  python -m keras_transformer.train --config configs/multi30k_en_de.yaml --run runs/en-de
      a recipe; options after it change single fields
  python -m keras_transformer.train --resume --run runs/en-de --train.max_steps 12000
      go on with a run that was stopped, or train it longer"""


@run_main("train")
def main(argv: Sequence[str]) -> None:
    """Train, or go on training."""
    parser = build_parser("train", MANUAL, list(SECTIONS))
    parser.add_argument(
        "--run",
        metavar="DIR",
        help="Run folder to make, or with --resume the one to go on with. Left out: "
        "runs/NAME for the built-in corpus NAME.",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="Go on with the run. Its configuration is in its folder; only options that do "
        "not change the model or the data can be given anew.",
    )
    options = load_config(parser, argv)
    run = run_folder(options)
    resume = bool(options.own.resume)
    config = None if resume else options.config()
    import_tensorflow()
    from keras_transformer.run import Run
    from keras_transformer.training import trainer

    trainer.train(config or options.config(Run.open(run).config), run, resume=resume)


def run_folder(options: Options) -> Path:
    """The run folder that the user named, or that of a built-in corpus.

    Raises:
        UsageError: No folder is named, and the corpus is the user's own.
    """
    if options.own.run is not None:
        return Path(options.own.run)
    kind, _, name = options.corpus.partition(":")
    if kind != "builtin":
        raise UsageError("--run DIR is missing: the run folder to make")
    return Path("runs") / name.partition(":")[0]


if __name__ == "__main__":
    sys.exit(main())
