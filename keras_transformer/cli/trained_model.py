"""Options of the commands that use a trained model, and its translator."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from keras_transformer.builtin_models import run_folder
from keras_transformer.cli.main import import_tensorflow
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser, add_number
from keras_transformer.config import Precision
from keras_transformer.devices import has_gpu
from keras_transformer.system import core_count
from keras_transformer.validation import MAX_PROCESSES, between

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


def add_run(parser: Parser) -> None:
    """Add ``--run``."""
    parser.add_argument(
        "--run",
        metavar="DIR",
        help="Run folder of the trained model, or builtin:phrasebook, a small trained "
        "English-Chinese model that comes with the package.",
    )


def run_path(options: Options) -> Path:
    """Return the folder named by ``--run``.

    Raises:
        UsageError: The option is missing.
        BuiltinModelError: There is no built-in model of this name.
    """
    if options.own.run is None:
        raise UsageError(
            "--run DIR is missing: the run folder of a trained model, or builtin:phrasebook"
        )
    return run_folder(options.own.run)


def files_read(options: Options) -> list[str | None]:
    """Return the files that a command with `add_translator` reads, without its texts."""
    run = None if options.own.run is None else run_folder(options.own.run)
    names = ("config.yaml", "best.weights.h5")
    files = [] if run is None else [Path(run, name) for name in names]
    files += [] if run is None else Path(run, "tokenizer").glob("*")
    config = [] if options.own.config is None else [options.own.config]
    return [*map(str, files), *config]


def add_translator(parser: Parser) -> None:
    """Add ``--run`` and the options of computation, which change results only by rounding."""
    add_run(parser)
    parser.add_argument(
        "--dtype",
        choices=list(get_args(Precision)),
        default="float32",
        help="Type of weights and arithmetic. bfloat16 takes half the memory, and 0.7 to 0.8 of "
        "the time on processors with bfloat16 arithmetic; some translations differ.",
    )
    add_number(
        parser,
        "workers",
        between(1, MAX_PROCESSES),
        help="Batches computed in parallel, which share the cores. Left out: one per core, or "
        "one in all with a GPU. 1 translates a single sentence with a large model sooner.",
    )


def load_translator(options: Options) -> Translator:
    """Load the translator of ``--run`` with the user's search options.

    Raises:
        UserError: No run is named, the folder is no run, or an option is invalid.
    """
    run = run_path(options)
    from keras_transformer.run import Run

    search = options.config(Run.open(run).config).search  # refuse mistakes before the slow import
    import_tensorflow()
    workers = _share_cores(options.own.workers)
    from keras_transformer.inference.translator import Translator

    return Translator.from_run(run, search, dtype=options.own.dtype, workers=workers)


def _share_cores(workers: int | None) -> int:
    """Divide the cores among ``workers``, None for the default number, before TensorFlow starts."""
    import tensorflow as tf

    if workers is None:
        workers = 1 if has_gpu() else core_count()
    with contextlib.suppress(RuntimeError):  # TensorFlow has run in this process before
        tf.config.threading.set_intra_op_parallelism_threads(max(core_count() // workers, 1))
    return workers
