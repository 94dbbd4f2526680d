"""Training from parallel text: ``python -m keras_transformer.train``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from keras_transformer.allocator import tune_allocator
from keras_transformer.cli.main import exit_on_signals, import_tensorflow, run_main
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import build_parser, load_config
from keras_transformer.cli.training import add_options, new_config, run_folder, train_in_workers
from keras_transformer.config import SECTIONS

MANUAL = """Train a Transformer on parallel text; all results are written to a run folder.

  python -m keras_transformer.train
      the built-in English-Chinese corpus, minutes on two cores
  python -m keras_transformer.train --preset tiny --data.train DIR/train --data.dev DIR/val \\
      --data.source en --data.target de --run runs/en-de
      your own text: DIR/train.en and DIR/train.de, DIR/val.en and DIR/val.de
  python -m keras_transformer.train --config configs/multi30k_en_de.yaml --run runs/en-de
      a recipe; options after it change single fields
  python -m keras_transformer.train --resume --run runs/en-de --train.max_steps 12000
      resume a stopped run, or train it longer
  python -m keras_transformer.train --init_from runs/en-de --data.train DIR/news \\
      --data.dev DIR/news-val --train.max_steps 1000 --run runs/news
      a new run from the weights and the vocabulary of another: fine-tuning

All GPUs of the machine share each batch; without a GPU, the CPU trains.
SIGTERM, Ctrl-C, a closed terminal and a limit on processor time save the run, then end the command
with status 143, 130, 129 or 152. Under nohup it goes on without the terminal."""


@run_main("train")
def main(argv: Sequence[str]) -> None:
    """Train, or resume a run."""
    parser = build_parser("train", MANUAL, list(SECTIONS))
    add_options(parser)
    options = load_config(parser, argv)
    run = run_folder(options)
    resume = bool(options.own.resume)
    if resume and options.own.init_from is not None:
        raise UsageError(
            "--init_from starts a new run; --resume continues one, which has its initial weights"
        )
    config = None if resume else new_config(options, run)
    if train_in_workers(options, argv, run):
        return
    tune_allocator()  # before TensorFlow takes memory
    # The first process of a container ignores SIGTERM unless it handles it.
    with exit_on_signals():
        import_tensorflow()
        from keras_transformer.run import Run
        from keras_transformer.training import trainer

        trainer.train(
            config or options.config(Run.open(run).config),
            run,
            resume=resume,
            devices=options.own.devices,
            accept_changes=bool(options.own.accept_changes),
            init_from=options.own.init_from,
        )


if __name__ == "__main__":
    sys.exit(main())
