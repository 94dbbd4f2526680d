"""Parts of every report: the machine, and tables in Markdown."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Describe the machine and its load."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {
        "processor": found[1] if found else platform.processor(),
        "processors": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
    }


def markdown(head: list[str], body: list[list[str]]) -> str:
    """Return a Markdown table."""
    rule = ["---" for _ in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *body])
