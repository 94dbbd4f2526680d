"""Local server of an exported model: ``python -m keras_transformer.serve``."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_transformer.builtin_models import PREFIX, run_folder
from keras_transformer.cli.main import exit_on_signals, import_tensorflow, run_main
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Parser, add_fields, bare_parser, parse
from keras_transformer.optional_dependencies import require_installed
from keras_transformer.server.settings import Address, Settings, check_folder, parse_labels
from keras_transformer.serving.version_folder import MODEL_NAME, is_model_name

MANUAL = """Serve the exported model in DIR over HTTP, with the REST interface of TensorFlow
Serving. This server is for one machine; in production use TensorFlow Serving, which reads the
same folder.

  python -m keras_transformer.serve export/models/en-de
  python -m keras_transformer.serve builtin:phrasebook
      the model that comes with the package, exported into a temporary folder for as long as the
      server runs; its web page is ready in seconds
  curl -d '{"instances": ["A dog runs."]}' localhost:8501/v1/models/en-de:predict
  curl -d '{"signature_name": "nbest", "inputs": {"text": ["A dog runs."]}}' \\
      localhost:8501/v1/models/en-de:predict

DIR holds the versions, in numbered folders. A new version is loaded beside the old one and
replaces it when it is ready; no request is lost. A version that cannot be loaded is skipped,
logged, and tried again when its files change; meanwhile the newest loaded version is used. If no
version can be loaded, the exit status is 2.

  GET  /v1/models/NAME                      state of the versions; 200 when ready
  GET  /v1/models/NAME/metadata             signatures
  POST /v1/models/NAME:predict              rows: {"instances": [...]}; columns: {"inputs": ...}
  .../NAME/versions/3..., .../NAME/labels/stable...   one version
  GET  /monitoring/prometheus/metrics       metrics
  GET  /                                    web page

  python -m keras_transformer.serve --upstream http://127.0.0.1:8501 --port 8502
      a gateway in front of TensorFlow Serving: requests that could harm it (an empty list, a wrong
      shape, deep nesting, too large a body) get 400 or 413; others are passed on unchanged. It
      reads the signatures from the upstream, and does not start TensorFlow.

Errors are {"error": ...}: 400 bad request; 404 unknown model or version; 408 slow request body;
413 too large a request or text; 503 full queue, try again; 504 timeout; from a gateway also 502
broken connection to the upstream, 503 no connection, 504 no answer. There is no access
control and no encryption: the server listens on this machine only, unless --host says otherwise.
SIGTERM and Ctrl-C stop it after the accepted requests are answered."""


@run_main("serve")
def main(argv: Sequence[str]) -> None:
    """Serve a model."""
    folder, settings, labels, log_requests = read_options(argv)
    require_installed("the local server", ["starlette", "uvicorn", "prometheus_client"])
    _log_to_stderr()
    from keras_transformer.server.app import Service, listen, serve
    from keras_transformer.server.servable import load

    listener = listen(settings.host, settings.port)
    if folder is None:
        from keras_transformer.server.gateway import Gateway, refuse_loop

        refuse_loop(Address.parse(settings.upstream), listener)
        asyncio.run(serve(Gateway(settings, log_requests), listener))
        return
    if _is_builtin(folder):
        require_installed("the export of a built-in model", ["tensorflow_serving"])
    _log("starting TensorFlow")
    import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(settings.threads)
    with _versions(folder) as versions:
        # Somebody who tries the model waits for the page, and then for one kind of request only.
        loader = functools.partial(load, warm_up=not _is_builtin(folder))
        service = Service(versions, settings, labels, loader, log_requests=log_requests)
        finished = asyncio.run(serve(service, listener))
    if not finished:
        # A thread that still runs the model would keep the process alive.
        sys.stderr.flush()
        os._exit(1)


def read_options(argv: Sequence[str]) -> tuple[Path | None, Settings, dict[str, int], bool]:
    """Read the command line.

    Args:
        argv: The words after the module's name.

    Returns:
        The model's folder or ``builtin:NAME`` (None for a gateway), the settings, version
        numbers by label, and whether to log requests.

    Raises:
        UserError: An option or the folder cannot be used.
    """
    values = parse(build_parser(), argv)
    settings = Settings(**{item.name: values[item.name] for item in dataclasses.fields(Settings)})
    labels = parse_labels(values.label or [])
    if settings.upstream:
        if values.folder is not None:
            raise UsageError(f"expected DIR or --upstream, got both: {values.folder}")
        if labels:
            raise UsageError("label: has no effect with --upstream; leave it out")
        return None, settings, {}, bool(values.log_requests)
    if values.folder is None:
        raise UsageError(
            "DIR is missing: the folder of an exported model, or builtin:phrasebook "
            "(or --upstream URL)"
        )
    folder = Path(values.folder)
    name = run_folder(folder).name if _is_builtin(folder) else check_folder(folder)
    if not settings.name and not is_model_name(name):
        raise UsageError(
            f"{folder}: the folder's name is the model's; expected {MODEL_NAME}, got {name!r}; "
            "rename it, or give --name"
        )
    settings = dataclasses.replace(settings, name=settings.name or name)
    return folder, settings, labels, bool(values.log_requests)


def build_parser() -> Parser:
    """Build the parser of the server's options."""
    parser = bare_parser("serve", MANUAL, "DIR")
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        help="Folder with the versions of a model, or builtin:phrasebook.",
    )
    add_fields(parser, Settings)
    parser.texts = ("upstream",)
    parser.add_argument(
        "--label",
        action="append",
        metavar="NAME=N",
        help="Name of a version, as in --label stable=3; may be repeated.",
    )
    parser.add_argument("--log_requests", action="store_true", help="Log each request.")
    return parser


@contextlib.contextmanager
def _versions(folder: Path) -> Iterator[Path]:
    """Yield the folder of the versions; that of a built-in model is temporary."""
    if not _is_builtin(folder):
        yield folder
        return
    from keras_transformer.run import Run
    from keras_transformer.serving.temporary import temporary_export

    with exit_on_signals(), temporary_export(Run.open(folder), _log) as versions:
        yield versions


def _is_builtin(folder: Path) -> bool:
    return str(folder).startswith(PREFIX)


def _log(line: str) -> None:
    logging.getLogger("keras_transformer.serve").info(line)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("keras_transformer.serve")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
