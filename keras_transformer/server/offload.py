"""JSON of large bodies, read and written in a thread so that the event loop does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

LARGE = 65536
"""Bytes of a body, or values of a reply, above which a thread takes the work."""


async def run_by_size(
    size: int, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """Call a function, in a thread if ``size`` is above ``LARGE``; a thread costs time too."""
    if size > LARGE:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
