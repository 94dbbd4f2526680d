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
    parser.add_argument(
        "--variants", nargs="+", metavar="MODEL", help="their models (default: all)"
    )
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
    parser.add_argument(
        "--json", type=Path, help="file for all figures; it keeps those of other models"
    )
    return parser.parse_args()


def selected(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the format and variant of each model, in the order in which they can be made."""
    models = [(name, one) for name in arguments.formats for one in peers.PEERS[name].variants]
    order = list(peers.PEERS)
    models.sort(key=lambda model: order.index(model[0]))
    return [one for one in models if not arguments.variants or one[1] in arguments.variants]


def make(arguments: argparse.Namespace, place: Path, size: str, name: str, variant: str) -> None:
    """Let a peer make a model."""
    with tempfile.TemporaryDirectory() as folder:
        if (name, variant) == peers.OWN:
            proof.export_own(place, Path(folder))
        text = text_folder(place, name, variant) if size == "proof" else Path(folder)
        peers.write_text(text, size, arguments.data)
        peers.make(place, name, variant, size, text, arguments.venvs.resolve())


def text_folder(place: Path, name: str, variant: str) -> Path:
    """Return the folder of the text that a model learns from."""
    return place / name / f"{variant}.text"


def prove(arguments: argparse.Namespace, place: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Make each model, convert it and compare; return the figures and the failures."""
    rows, failures = [], []
    for name, variant in selected(arguments):
        try:
            if not peers.answers_file(place, name, variant).is_file():
                make(arguments, place, "proof", name, variant)
            with tempfile.TemporaryDirectory() as work:
                text = text_folder(place, name, variant)
                row = proof.prove(place, name, variant, Path(work), text)
        except SystemExit as error:  # the other models are compared all the same
            failures.append(str(error))
            print(error, file=sys.stderr, flush=True)
            continue
        rows.append(row)
        print(json.dumps(row, ensure_ascii=False), file=sys.stderr, flush=True)
        if arguments.json:
            content = json.dumps(merged(arguments.json, rows), indent=1, ensure_ascii=False)
            arguments.json.write_text(f"{content}\n", encoding="utf-8")
    return rows, failures


def merged(file: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a file with new ones in their places."""
    old = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    by_model = {(row["format"], row["variant"]): row for row in [*old, *rows]}
    order = [(name, one) for name, peer in peers.PEERS.items() for one in peer.variants]
    return [by_model[model] for model in order if model in by_model]


def main() -> None:
    """Make models, compare, and print the table."""
    arguments = parse()
    if arguments.golden:
        for name, variant in selected(arguments):
            if (name, variant) != peers.OWN:
                make(arguments, GOLDEN, "golden", name, variant)
        return
    with contextlib.ExitStack() as stack:
        place = arguments.models or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows, failures = prove(arguments, place.resolve())
    print(conversion_table.table(rows))
    if failures:
        raise SystemExit(f"{len(failures)} models failed")


if __name__ == "__main__":
    main()
