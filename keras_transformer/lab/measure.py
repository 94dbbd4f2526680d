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
    """Measure a run and write its statistics and scores as JSON."""
    path, output, searches = argv[:3]
    with exit_on_signals():
        import_tensorflow()
        from keras_transformer.lab import run_statistics, scores
        from keras_transformer.run import Run

        run = Run.open(Path(path))
        by_job = scores.final_scores(run, json.loads(searches))
        statistics: dict[str, Any] = run_statistics.collect(run, curves="--search_only" not in argv)
        system.write_json(Path(output), finite({"run": statistics, "scores": by_job}))


if __name__ == "__main__":
    sys.exit(main())
