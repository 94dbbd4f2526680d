"""Contestants with the same weights, measured in turn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from contestants import environments
from contestants.process import CONTESTANTS, Case, Contestant, Running, prepare


class Field:
    """Contestants started with the same weights.

    Args:
        arguments: Of the command line.
        settings: For all of them.
    """

    def __init__(self, arguments: argparse.Namespace, settings: dict[str, Any]) -> None:
        chosen = [CONTESTANTS[name] for name in arguments.contestants]
        pythons = {
            one: environments.python(arguments.venvs, one.environment)
            if one.environment
            else sys.executable
            for one in chosen
        }
        ours = CONTESTANTS["ours"]
        prepare(ours, sys.executable, settings)
        for script in dict.fromkeys(one.script for one in chosen if one.environment):
            one = next(one for one in chosen if one.script == script)
            converts_itself = one.environment == "opennmt-tf"
            prepare(one, pythons[one] if converts_itself else sys.executable, settings)
        self.running = [Running(one, pythons[one], settings) for one in chosen]

    def measure(self, requests: dict[Contestant, dict[str, Any]], repeats: int) -> list[Case]:
        """Ask all contestants in turn; see ``measure``."""
        return measure(self.running, requests, repeats)

    def end(self) -> None:
        """End all contestants."""
        for one in self.running:
            one.end()


def measure(
    running: Sequence[Running], requests: dict[Contestant, dict[str, Any]], repeats: int
) -> list[Case]:
    """Ask contestants in turn, forwards in one round and backwards in the next."""
    cases = [Case() for _ in running]
    pairs = list(zip(running, cases, strict=True))
    for turn in range(repeats):
        for one, case in pairs if turn % 2 == 0 else reversed(pairs):
            one.ask(requests[one.contestant], case)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return cases
