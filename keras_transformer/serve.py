"""Serve an exported model on this machine: ``python -m keras_transformer.serve``."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.main import import_tensorflow, run_main
from keras_transformer.cli.options import Parser, UsageError, bare_parser, parse
from keras_transformer.server.settings import Settings, check_folder, parse_labels

MANUAL = """Serve the exported model in DIR over HTTP, with TF Serving's REST interface. A stand-in
for one machine: for production take TF Serving itself, which reads the same folder.

  python -m keras_transformer.serve export/models/en-de
  curl -d '{"instances": ["A dog runs."]}' localhost:8501/v1/models/en-de:predict
  curl -d '{"signature_name": "nbest", "inputs": {"text": ["A dog runs."]}}' \\
      localhost:8501/v1/models/en-de:predict

DIR holds the versions, folders named by numbers. A new one that appears in it is loaded beside
the old one, takes over when it is ready, and no request is lost. One that cannot be loaded, at
the start or later, hurts nobody: the log says why, the newest that can be loaded answers, and it
is tried again when its files change. Where none can be loaded, the exit status is 2.

  GET  /v1/models/NAME                      the state of the versions; 200: it is ready
  GET  /v1/models/NAME/metadata             the signatures
  POST /v1/models/NAME:predict              rows: {"instances": [...]}; columns: {"inputs": ...}
  .../NAME/versions/3..., .../NAME/labels/stable...   a certain version
  GET  /monitoring/prometheus/metrics       figures
  GET  /                                    a page to try it

Errors are {"error": ...}: 400 the request is wrong; 404 no such model or version; 408 its body
was slow; 413 it, or a text in it, is too large; 503 the queue is full, try again; 504 it took too
long. There is no access control and no encryption: it listens on this machine only unless --host
says so. SIGTERM and Ctrl-C end it once what it has taken is answered."""


@run_main("serve")
def main(argv: Sequence[str]) -> None:
    """Serve a model."""
    folder, settings, labels, log_requests = read_options(argv)
    _log_to_stderr()
    from keras_transformer.server.app import Service, listen, serve

    taken = listen(settings.host, settings.port)
    logging.getLogger("keras_transformer.serve").info("starting TensorFlow")
    import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(settings.threads)
    service = Service(folder, settings, labels, log_requests=log_requests)
    if not asyncio.run(serve(service, taken)):
        # A thread that still runs the model would keep the process alive.
        sys.stderr.flush()
        os._exit(1)


def read_options(argv: Sequence[str]) -> tuple[Path, Settings, dict[str, int], bool]:
    """What the command line says.

    Args:
        argv: The words after the module's name.

    Returns:
        The model's folder, the settings, version numbers by label, and whether to log requests.

    Raises:
        UserError: An option, or the folder, cannot be used.
    """
    values = parse(build_parser(), argv)
    if values.folder is None:
        raise UsageError("DIR is missing: the folder of an exported model")
    folder = Path(values.folder)
    settings = Settings(**{item.name: values[item.name] for item in dataclasses.fields(Settings)})
    labels = parse_labels(values.label or [])
    name = check_folder(folder)
    settings = dataclasses.replace(settings, name=settings.name or name)
    return folder, settings, labels, bool(values.log_requests)


def build_parser() -> Parser:
    """The options of the server."""
    parser = bare_parser("serve", MANUAL, "DIR")
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", help="Folder of a model, with its versions."
    )
    parser.add_class_arguments(Settings)
    parser.add_argument(
        "--label",
        action="append",
        metavar="NAME=N",
        help="A name for a version, as in --label stable=3; may be given several times.",
    )
    parser.add_argument("--log_requests", action="store_true", help="A line for each request.")
    return parser


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("keras_transformer.serve")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
