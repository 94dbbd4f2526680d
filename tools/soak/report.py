"""Report of the endurance test: counts, failures and figures, as JSON and as tables.

python -m tools.soak.report        # writes the section of docs/results.md from docs/soak.json
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_transformer import system
from tools.soak.trials import Result

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "soak.json"
DOCUMENT = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"

_FIGURES = (
    "p50 ms",
    "p99 ms",
    "memory at a fifth of the time, MB",
    "memory at the end, MB",
    "swaps",
    "damaged versions",
    "longest loading, s",
)


def report(results: Iterable[Result], seed: int, seconds: float) -> dict[str, Any]:
    """Return the contents of soak.json.

    Args:
        results: All finished trials.
        seed: Seed of the test.
        seconds: Duration of this call.
    """
    found = list(results)
    return {
        "passed": bool(found) and not any(result.failure for result in found),
        "seed": seed,
        "cores": system.core_count(),
        "processor": processor(),
        "seconds": round(seconds, 1),
        "kinds": _kinds(found),
        "moments": _moments(found),
        "failures": [
            {"trial": result.name, "seed": result.seed, "failure": result.failure}
            for result in found
            if result.failure
        ],
        "server": next(
            (result.details for result in found if result.section == "server" and result.details),
            None,
        ),
    }


def _kinds(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return counts by section and kind, in the order of the trials."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results:
        row = rows.setdefault(
            (result.section, result.kind),
            {
                "section": result.section,
                "kind": result.kind,
                "trials": 0,
                "disturbances": 0,
                "failed": 0,
                "seconds": 0.0,
            },
        )
        row["trials"] += 1
        row["disturbances"] += result.count
        row["failed"] += bool(result.failure)
        row["seconds"] = round(row["seconds"] + result.seconds, 1)
    return list(rows.values())


def _moments(results: Sequence[Result]) -> dict[str, int]:
    """Return the number of kills by what was going on."""
    kills = [kill for result in results for kill in result.details.get("kills", [])]
    return dict(Counter(kill.split()[0] for kill in kills).most_common())


def processor() -> str:
    """Return the name of the processor, empty if the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def table(values: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    lines = [
        "| trials of | kind | trials | disturbances | failed | seconds |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['section']} | {row['kind']} | {row['trials']} | {_disturbances(row)} | "
        f"{row['failed']} | {row['seconds']:,.0f} |"
        for row in values["kinds"]
    ]
    server = values["server"]
    if server:
        lines += ["", "| server | |", "|---|---|"]
        load = f"{server['connections']} connections for {server['seconds']:,} seconds"
        lines += [f"| load | {load} |"]
        lines += [f"| {name} | {server[name]} |" for name in _FIGURES]
        outcomes = ", ".join(f"{count:,} {name}" for name, count in server["outcomes"].items())
        lines += [f"| requests | {outcomes} |"]
    names = [f"{item['trial']} (seed {item['seed']})" for item in values["failures"]]
    outcome = f"Failed: {', '.join(names)}." if names else "All trials passed."
    processor_name = f", {values['processor']}" if values["processor"] else ""
    machine = f"{values['cores']} cores{processor_name}"
    if values["moments"]:
        moments = ", ".join(f"{name} {count}" for name, count in values["moments"].items())
        lines += ["", f"Kills by moment: {moments}."]
    return "\n".join([*lines, "", f"{outcome} Seed {values['seed']}, {machine}."])


def _disturbances(row: dict[str, Any]) -> str:
    """Return their number and what they are."""
    if row["section"] == "server":
        return f"{row['disturbances']:,} s of load"
    names = {"training": "kills", "signals": "signals", "limits": "limits", "translation": "kills"}
    return f"{row['disturbances']} {names.get(row['section'], '')}".strip()


def save(values: dict[str, Any], path: Path) -> None:
    """Write soak.json, and the section of results.md beside it if there is one."""
    system.write_json(path, values)
    document = path.with_name(DOCUMENT.name)
    if document.exists() and BEGIN in document.read_text(encoding="utf-8"):
        text = document.read_text(encoding="utf-8")
        system.write_text(document, with_section(text, values))


def with_section(document: str, values: dict[str, Any] | None) -> str:
    """Return a document with the report between its two marks.

    Args:
        document: The text of the document.
        values: The contents of soak.json, None if the test has not run.

    Raises:
        ValueError: The marks are missing.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the marks {BEGIN} and {END}")
    section = table(values) if values else "Not run yet."
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the section of the document."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.soak.report", description="Write the section of docs/results.md."
    )
    parser.parse_args(arguments)
    values = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else None
    text = with_section(DOCUMENT.read_text(encoding="utf-8"), values)
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
