"""Command-line options of the benchmarks beside other toolkits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from contestants.process import ROOT


def add_shared_options(parser: argparse.ArgumentParser, contestants: Iterable[str]) -> None:
    """Add the options that these benchmarks share.

    Args:
        parser: Of the benchmark.
        contestants: Names to choose from.
    """
    names = list(contestants)
    parser.add_argument(
        "--contestants", nargs="+", choices=names, default=names, metavar="NAME",
        help=f"of {', '.join(names)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path,
        default=Path(os.environ.get("KERAS_TRANSFORMER_DATA", ROOT.parent / "shared" / "data")),
        help="folder with multi30k/ (default: $KERAS_TRANSFORMER_DATA)",
    )  # fmt: skip
    parser.add_argument(
        "--venvs", type=Path, default=ROOT / ".venv" / "peers",
        help="folder of the peers' environments (default: .venv/peers)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="file for all figures")
