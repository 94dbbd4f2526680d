"""Proof that converted models compute what their own systems compute.

  python benchmarks/conversion.py
  python benchmarks/conversion.py --formats marian hf_marian --json conversion.json
  python benchmarks/conversion.py --golden

Each peer makes small models, trains them for a few hundred updates on Multi30k, and gives its own
numbers: log-probabilities of every token of its n-best lists, greedy translations, scores. Then
``keras_transformer.convert`` makes run folders of the peer's files, and they are compared. The
first call creates the peers' environments.

--golden makes still smaller models from made-up sentences: the golden files of the test suite.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parent / "foreign"),
    str(Path(__file__).resolve().parent),
]

import peers  # noqa: E402
from contestants.process import ROOT  # noqa: E402

GOLDEN = ROOT / "tests" / "convert" / "golden"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--formats", nargs="+", choices=peers.PEERS, default=list(peers.PEERS), metavar="FORMAT",
        help=f"of {', '.join(peers.PEERS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--golden", action="store_true", help="write the golden files, and stop")
    parser.add_argument("--models", type=Path, help="keep, or use again, the models in this folder")
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
    return parser.parse_args()


def make(arguments: argparse.Namespace, place: Path, size: str) -> None:
    """Let the peers make models that are not there yet."""
    for name, variant in peers.selected(arguments.formats):
        if size == "proof" and peers.answers_file(place, name, variant).is_file():
            continue
        with tempfile.TemporaryDirectory() as folder:
            peers.write_text(Path(folder), size, arguments.data)
            peers.make(place, name, variant, size, Path(folder), arguments.venvs.resolve())


def main() -> None:
    """Make models and compare."""
    arguments = parse()
    if arguments.golden:
        make(arguments, GOLDEN, "golden")
        return
    raise SystemExit("not yet")


if __name__ == "__main__":
    main()
