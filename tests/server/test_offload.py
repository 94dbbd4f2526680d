"""Work on large bodies in a thread."""

from __future__ import annotations

import asyncio
import threading

from keras_transformer.server.offload import LARGE, run_by_size


def test_only_large_work_goes_to_a_thread() -> None:
    async def names() -> list[str]:
        return [
            await run_by_size(size, lambda: threading.current_thread().name)
            for size in (LARGE, LARGE + 1)
        ]

    small, large = asyncio.run(names())
    assert small == threading.main_thread().name
    assert large != small
