"""Dynamic batching: concurrent requests share batches.

Requests that arrive while a batch runs form the next batch. So an idle server replies at once, a
busy one works in larger batches, and no request waits for a timer by default.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from keras_transformer.server.batch import Chunk, Job, Result, join_outputs, run
from keras_transformer.server.decode import PredictRequest
from keras_transformer.server.errors import RestError
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.servable import Servable, to_rest_error
from keras_transformer.server.settings import Settings

log = logging.getLogger("keras_transformer.serve")


class Batcher:
    """A queue of requests and the threads that run batches; for use in one event loop.

    Args:
        settings: ``max_batch_size``, ``batch_timeout_ms``, ``batches`` and ``max_queue``.
        metrics: Metrics of queue and batches.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.waiting = 0
        self.running = 0
        self._queue: dict[Job, None] = {}  # ordered by arrival; any job may be removed
        self._threads = ThreadPoolExecutor(settings.batches_at_once, thread_name_prefix="batch")
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, servable: Servable, request: PredictRequest) -> Job:
        """Put a request into the queue.

        Returns:
            A job whose ``outputs`` can be awaited; pass it to ``drop`` afterwards.

        Raises:
            RestError: The queue is full, or smaller than the request.
        """
        limit = self.settings.max_queue
        if request.rows > limit:
            raise RestError(f"expected at most {limit} rows in a request, got {request.rows}")
        if self.waiting + request.rows > limit:
            raise RestError(
                f"too busy: {self.waiting} rows are waiting, at most {limit} may",
                "UNAVAILABLE",
                headers={"Retry-After": "1"},
            )
        job = Job(servable, request, asyncio.get_running_loop().create_future())
        self._queue[job] = None
        self._change_waiting(request.rows)
        self._start()
        return job

    def drop(self, job: Job) -> None:
        """Remove a job; results of its running rows are discarded."""
        job.outputs.cancel()
        self._remove(job)

    def close(self) -> None:
        """Start no more batches."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _remove(self, job: Job) -> None:
        if job in self._queue:
            del self._queue[job]
            self._change_waiting(-job.rows_left)

    def _change_waiting(self, rows: int) -> None:
        self.waiting += rows
        self.metrics.queue_rows.set(self.waiting)

    def _start(self) -> None:
        """Start batches while there are queued jobs and free threads."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and self.running < self.settings.batches_at_once:
            wait = self._time_to_fill()
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait, self._start)
                return
            chunks = self._next_batch()
            self.running += 1
            task = asyncio.get_running_loop().run_in_executor(self._threads, run, chunks)
            task.add_done_callback(functools.partial(self._finish, chunks, time.monotonic()))

    def _time_to_fill(self) -> float:
        """Return the seconds that the next batch may still wait for more rows."""
        head = next(iter(self._queue))
        if self._joinable(head) >= self.settings.max_batch_size:
            return 0.0
        return head.since + self.settings.batch_timeout_ms / 1000 - time.monotonic()

    def _joinable(self, head: Job) -> int:
        """Return the number of rows that could share a batch with the first job."""
        return sum(job.rows_left for job in self._queue if job is head or job.can_share_batch(head))

    def _next_batch(self) -> list[Chunk]:
        """Take rows of the first job, and of those that may join it, from the queue.

        If several threads are free, the rows are divided among as many batches.
        """
        head = next(iter(self._queue))
        free = self.settings.batches_at_once - self.running
        rows_each = max(-(-self._joinable(head) // free), 1)  # 1 even if a request has no rows
        space = min(self.settings.max_batch_size, rows_each)
        chunks = []
        for job in list(self._queue):
            if space == 0:
                break
            if job is not head and not job.can_share_batch(head):
                continue
            rows = min(space, job.rows_left)
            chunks.append(Chunk(job, job.started, rows))
            if job.started == 0:
                self.metrics.wait_seconds.observe(time.monotonic() - job.since)
            job.started += rows
            space -= rows
            del self._queue[job]
            if job.rows_left:
                self._queue[job] = None  # the rest of a large request goes to the end
        rows = sum(chunk.rows for chunk in chunks)
        self._change_waiting(-rows)
        self.metrics.batch_rows.labels(head.request.signature.name).observe(rows)
        return chunks

    def _finish(
        self, chunks: Sequence[Chunk], started: float, task: asyncio.Future[list[Result]]
    ) -> None:
        self.running -= 1
        self.metrics.run_seconds.observe(time.monotonic() - started)
        if not task.cancelled():
            failure = task.exception()
            results = task.result() if failure is None else [to_rest_error(failure)] * len(chunks)
            for chunk, result in zip(chunks, results, strict=True):
                try:
                    self._settle(chunk, result)
                except Exception as error:  # concerns this request only
                    log.exception("the outputs of a request cannot be joined")
                    self._settle(chunk, to_rest_error(error))
        self._start()

    def _settle(self, chunk: Chunk, result: Result) -> None:
        """Record the result of a chunk; complete its job with the last one or an error."""
        job = chunk.job
        if job.outputs.done():
            return
        if isinstance(result, RestError):
            job.outputs.set_exception(result)
            self._remove(job)
            return
        job.done[chunk.start] = (chunk.rows, result)
        if sum(rows for rows, _ in job.done.values()) == job.request.rows:
            parts = [outputs for _, (_, outputs) in sorted(job.done.items())]
            job.outputs.set_result(join_outputs(job.request.signature, parts))
