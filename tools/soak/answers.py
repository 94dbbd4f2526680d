"""Right answers of a server whose versions change."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence


class Timeline:
    """The times in which each version may answer, by the clock of the test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[int, tuple[float, float]] = {}

    def placed(self, version: int, time: float) -> None:
        """Record when a version became visible to the server, at the latest."""
        with self._lock:
            self._times[version] = (time, math.inf)

    def gone(self, version: int, time: float) -> None:
        """Record when a version was seen to accept no more requests."""
        with self._lock:
            self._times[version] = (self._times[version][0], time)

    def live(self, start: float, end: float) -> list[int]:
        """Return the versions that may have answered a request of this time, newest first."""
        with self._lock:
            return sorted(
                (v for v, (first, last) in self._times.items() if first <= end and start <= last),
                reverse=True,
            )


class Answers:
    """The translations of each export, which the versions serve in turn.

    Args:
        timeline: The versions in time.
        exports: For each export the translations by sentence.
    """

    def __init__(self, timeline: Timeline, exports: Sequence[Mapping[str, str]]) -> None:
        self._timeline = timeline
        self._exports = exports

    def export(self, version: int) -> int:
        """Return the index of the export that a version is a copy of."""
        return version % len(self._exports)

    def fault(
        self, texts: Sequence[str], translations: Sequence[str], start: float, end: float
    ) -> str:
        """Return why translations are wrong, empty if a version that was live gave them.

        Args:
            texts: The sentences of one request.
            translations: The answer.
            start: When the request began.
            end: When its answer was there.
        """
        versions = self._timeline.live(start, end)
        for version in versions:
            known = self._exports[self.export(version)]
            if [known[text] for text in texts] == list(translations):
                return ""
        return f"{list(texts)}: got {list(translations)}, live versions {versions}"
