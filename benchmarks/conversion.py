"""Proof that converted models compute what their own systems compute.

  python benchmarks/conversion.py --json docs/conversion.json
  python benchmarks/conversion.py --formats marian hf_marian --models /tmp/models
  python benchmarks/conversion.py --golden

Each peer makes small models, trains them for a few hundred updates on Multi30k, and gives its own
numbers: log-probabilities of every token of its n-best lists, greedy translations, scores. Then
``keras_transformer.convert`` makes run folders of the peer's files, and they are compared: the
network, the search, the exported model in TensorFlow's C++ runtime, and 50 updates of fine-tuning.
The first call creates the peers' environments. ``python -m tools.conversion_table`` writes the
figures of docs/conversion.json to docs/conversion.md.

--golden makes still smaller models from made-up sentences: the golden files of the test suite.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "foreign"), str(HERE.parent)]

import peers  # noqa: E402
import proof  # noqa: E402
from contestants.process import ROOT  # noqa: E402

from tools import conversion_table  # noqa: E402

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
            text = text_folder(place, name, variant) if size == "proof" else Path(folder)
            peers.write_text(text, size, arguments.data)
            peers.make(place, name, variant, size, text, arguments.venvs.resolve())


def text_folder(place: Path, name: str, variant: str) -> Path:
    """Return the folder of the text that a model learns from."""
    return place / name / f"{variant}.text"


def proofs(arguments: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    """Convert and compare each model."""
    rows = []
    for name, variant in peers.selected(arguments.formats):
        with tempfile.TemporaryDirectory() as work:
            text = text_folder(place, name, variant)
            rows.append(proof.prove(place, name, variant, Path(work), text))
        print(json.dumps(rows[-1], ensure_ascii=False), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Make models, compare, and print the table."""
    arguments = parse()
    if arguments.golden:
        make(arguments, GOLDEN, "golden")
        return
    with contextlib.ExitStack() as stack:
        place = arguments.models or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make(arguments, place.resolve(), "proof")
        rows = proofs(arguments, place.resolve())
    print(conversion_table.table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
