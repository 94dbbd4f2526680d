"""Training at the command line: options, run folder and workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.builtin_models import refuse_writing
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser, add_number
from keras_transformer.cli.workers import launch
from keras_transformer.config import RESUMABLE, Config
from keras_transformer.config.fine_tuning import FREE, fine_tuning_base, fine_tuning_config
from keras_transformer.devices import dealt_gpus
from keras_transformer.validation import MAX_PROCESSES, between

MAX_RESTARTS = 1_000


def add_options(parser: Parser) -> None:
    """Add the options of ``train``."""
    add = parser.add_argument
    add(
        "--run",
        metavar="DIR",
        help="Run folder to create, or to resume. Left out: runs/NAME for the built-in corpus "
        "NAME.",
    )
    add(
        "--resume",
        action="store_true",
        help="Resume the run with the configuration in its folder. Only search.* and these train "
        f"options may change: {', '.join(RESUMABLE)}.",
    )
    add(
        "--init_from",
        metavar="RUN",
        help="Start a new run from the best weights of another, with its vocabulary and a fresh "
        "optimizer (fine-tuning); builtin:phrasebook is the model that comes with the package. "
        "Options left out are those of RUN. Give --data.train, --data.dev and train.*; of "
        f"model.* only {', '.join(FREE)} may differ.",
    )
    add(
        "--accept_changes",
        action="store_true",
        help="With --resume: resume although the configuration or the corpus has changed. A "
        "changed corpus is encoded with the run's vocabulary; the network must fit the "
        "checkpoint.",
    )
    add(
        "--devices",
        default="auto",
        metavar="SPEC",
        help="auto: all GPUs, or the CPU if there is none; cpu; gpu; gpu:N: the first N GPUs; "
        "cpu:N: the CPU as N devices, to try training on several devices without GPUs.",
    )
    add_number(
        parser,
        "workers",
        between(1, MAX_PROCESSES),
        default=1,
        help="Processes on this machine that train together, like machines of a cluster. (In a "
        "cluster, TF_CONFIG or Slurm's variables name the workers.)",
    )
    add_number(
        parser,
        "restarts",
        between(0, MAX_RESTARTS),
        default=0,
        help="With --workers: restart all workers from the last checkpoint after a failure, at "
        "most N times.",
    )


def run_folder(options: Options) -> Path:
    """Return the run folder of ``--run``, or that of a built-in corpus.

    Raises:
        UsageError: No folder is named, and the corpus is the user's own.
        BuiltinModelError: A built-in model is named.
    """
    if options.own.run is not None:
        refuse_writing(options.own.run)
        return Path(options.own.run)
    kind, _, name = options.corpus.partition(":")
    if kind != "builtin" or options.own.init_from is not None:
        raise UsageError("--run DIR is missing: the run folder to create")
    return Path("runs") / name.partition(":")[0]


def new_config(options: Options, run: Path) -> Config:
    """Build the configuration of a new run.

    Args:
        options: With the own options of `add_options`.
        run: The run folder.

    Raises:
        UserError: An option is invalid, or the run of ``--init_from`` cannot be used.
    """
    if options.own.init_from is None:
        config = options.config()
        config.check_learnable()
        return config
    from keras_transformer.run import Run

    source = Run.open(options.own.init_from)
    source.check_initializes(run)
    config = options.config(fine_tuning_base(source.config, options.given))
    config.data.check_corpus()
    return fine_tuning_config(source.config, config, options.own.init_from)


def train_in_workers(options: Options, argv: Sequence[str], run: Path) -> bool:
    """Train in several processes if ``--workers`` asks for them.

    Args:
        options: With the own options of `add_options`.
        argv: The command line, passed on to each worker.
        run: The run folder.

    Returns:
        False if this process has to train: alone, or as one of the workers.

    Raises:
        UsageError: There are fewer GPUs than workers.
        SystemExit: The workers failed.
    """
    workers, restarts = options.own.workers, options.own.restarts
    # A worker has the same options as the launcher that started it.
    if workers == 1 or "TF_CONFIG" in os.environ:
        return False
    status = launch(list(argv), workers, restarts, run, _gpus(options.own.devices, workers))
    if status:
        raise SystemExit(status)
    return True


def _gpus(spec: str, workers: int) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES of each worker; empty if there is no GPU to deal out."""
    if spec.startswith("cpu"):
        return []
    dealt = dealt_gpus(workers, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if dealt and not dealt[0]:
        raise UsageError(
            f"--workers: expected at most one worker for each GPU, got {workers}; one process "
            "uses all GPUs without --workers, and --devices cpu uses none"
        )
    return dealt
