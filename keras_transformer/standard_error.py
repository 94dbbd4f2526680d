"""Standard error whose terminal or reader may be gone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class _TolerantStream:
    """A text stream that drops what cannot be written.

    Args:
        stream: The stream; None where the process was started without one.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream is not None and not self._stream.closed and self._stream.isatty()

    def write(self, text: str) -> int:
        """Write ``text``, or drop it."""
        if self._stream is not None and not self._stream.closed:
            with self._dropping():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if that is possible."""
        if self._stream is not None and not self._stream.closed:
            with self._dropping():
                self._stream.flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:  # a reader that is slow, not gone
            pass
        except OSError:  # EPIPE, EIO of a terminal, a full disk
            self._redirect()

    def _redirect(self) -> None:
        """Send what is still buffered, and all that follows, to the null device."""
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as null:
            os.dup2(null.fileno(), self.fileno())


@contextlib.contextmanager
def tolerant_stderr() -> Iterator[None]:
    """Drop what cannot be written to standard error in the block.

    The terminal may close or the reader of a pipe may end, while a training has to continue or to
    save.
    """
    before = sys.stderr
    if isinstance(before, _TolerantStream):
        yield
        return
    tolerant = _TolerantStream(before)
    sys.stderr = tolerant
    try:
        yield
    finally:
        if sys.stderr is tolerant:
            sys.stderr = before
