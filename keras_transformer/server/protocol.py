"""HTTP protocol with an idle timeout."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def bounded_protocol(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with a limit on the time between requests.

    uvicorn itself does not limit the time for a request's head; ``read_body`` limits that of the
    body.

    Args:
        seconds: Greatest time from the start of the connection, or the last reply, to the end of
            the next request's head.
    """

    class BoundedProtocol(H11Protocol):
        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._restart()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()

        def on_response_complete(self) -> None:
            # First, because the next request may be there already and stop the timer.
            self._restart()
            super().on_response_complete()

        def _restart(self) -> None:
            self._stop()
            self._limit = self.loop.call_later(seconds, self.transport.abort)

        def _stop(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

    return BoundedProtocol
