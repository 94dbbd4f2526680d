"""Measurements of one finished run, in a process of its own: ``python -m …lab.measure``.

Called by the runner: RUN OUTPUT.json SEARCHES [--search_only], where SEARCHES is JSON with the
section ``search`` of each job by its key.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.cli.main import exit_on_signals, import_tensorflow, run_main
from keras_transformer.lab.results import finite


@run_main("lab.measure")
def main(argv: Sequence[str]) -> None:
    """Measure a run and write the values as JSON."""
    path, output, searches = argv[:3]
    with exit_on_signals():
        import_tensorflow()
        from keras_transformer.lab import run_values, scores
        from keras_transformer.run import Run

        run = Run.open(Path(path))
        finals = scores.finals(run, json.loads(searches))
        values: dict[str, Any] = run_values.of_run(run, curves="--search_only" not in argv)
        system.write_json(Path(output), finite({"run": values, "finals": finals}))


if __name__ == "__main__":
    sys.exit(main())
