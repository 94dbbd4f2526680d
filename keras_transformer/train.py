"""Train a translator from parallel text: ``python -m keras_transformer.train``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.main import ended_by_sigterm, import_tensorflow, run_main
from keras_transformer.cli.options import (
    SECTIONS,
    Options,
    Parser,
    UsageError,
    build_parser,
    load_config,
)
from keras_transformer.cli.workers import launch

MANUAL = """Train a Transformer on parallel text; everything lands in a run folder.

  python -m keras_transformer.train
      the built-in English-Chinese corpus, minutes on two cores
  python -m keras_transformer.train --preset tiny --data.train DIR/train --data.dev DIR/val \\
      --data.source en --data.target de --run runs/en-de
      your own text: DIR/train.en and DIR/train.de, DIR/val.en and DIR/val.de
  python -m keras_transformer.train --config configs/multi30k_en_de.yaml --run runs/en-de
      a recipe; options after it change single fields
  python -m keras_transformer.train --resume --run runs/en-de --train.max_steps 12000
      go on with a run that was stopped, or train it longer

All GPUs of the machine take their share of each batch; where there is none, the CPU trains.
A run that is ended by SIGTERM or Ctrl-C saves first, and exits with status 143 or 130."""


@run_main("train")
def main(argv: Sequence[str]) -> None:
    """Train, or go on training."""
    parser = build_parser("train", MANUAL, list(SECTIONS))
    _add_options(parser)
    options = load_config(parser, argv)
    run = run_folder(options)
    resume = bool(options.own.resume)
    config = None if resume else options.config()
    if _launched(options, argv, run):
        return
    # Also where nothing is done with the signal otherwise: in a container's first process.
    with ended_by_sigterm():
        import_tensorflow()
        from keras_transformer.run import Run
        from keras_transformer.training import trainer

        trainer.train(
            config or options.config(Run.open(run).config),
            run,
            resume=resume,
            devices=options.own.devices,
            accept_changes=bool(options.own.accept_changes),
        )


def _add_options(parser: Parser) -> None:
    """Add what is no field of the configuration."""
    parser.add_argument(
        "--run",
        metavar="DIR",
        help="Run folder to make, or with --resume the one to go on with. Left out: "
        "runs/NAME for the built-in corpus NAME.",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="Go on with the run. Its configuration is in its folder; of the options only search.* "
        "and those of train that change no result can be given anew: max_steps, max_minutes, "
        "patience, keep_best, log_every, tensorboard, micro_batch_tokens, recompute.",
    )
    parser.add_argument(
        "--accept_changes",
        action="store_true",
        help="With --resume: go on although the configuration or the corpus is another than at "
        "the beginning. A changed corpus is encoded with the run's vocabulary; the network "
        "must fit the checkpoint.",
    )
    parser.add_argument(
        "--devices",
        default="auto",
        metavar="SPEC",
        help="auto: all GPUs, or the CPU where there is none; cpu, gpu; gpu:N, the first N; "
        "cpu:N, the CPU as N devices, to try on any machine what several do.",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="Processes on this machine that train together, as machines of a cluster do. "
        "(In a cluster, TF_CONFIG or Slurm's variables say which processes do.)",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="With --workers: begin again from the last checkpoint when one of them falls, so "
        "many times.",
    )


def _launched(options: Options, argv: Sequence[str], run: Path) -> bool:
    """Whether several workers have trained instead of this process.

    Raises:
        UsageError: Numbers that make no sense.
        SystemExit: The workers did not finish.
    """
    workers, restarts = options.own.workers, options.own.restarts
    for name, value, least in (("workers", workers, 1), ("restarts", restarts, 0)):
        if value < least:
            raise UsageError(f"--{name}: expected {least} or more, got {value}")
    # A worker has the same options as the one that started it.
    if workers == 1 or "TF_CONFIG" in os.environ:
        return False
    status = launch(list(argv), workers, restarts, run)
    if status:
        raise SystemExit(status)
    return True


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
