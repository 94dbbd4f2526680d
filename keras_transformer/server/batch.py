"""Batches of chunks of requests: running a batch, and joining the outputs of a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_transformer.server.decode import PredictRequest
from keras_transformer.server.errors import RestError
from keras_transformer.server.servable import Servable, to_rest_error
from keras_transformer.server.signature import Array, Arrays, Signature, Spec

Result = Arrays | RestError
"""Outputs of a chunk, or its error."""


@dataclass(eq=False)
class Job:
    """A request in the queue.

    Attributes:
        servable: The model.
        request: The request.
        outputs: Future of the outputs; cancelled if the client disconnects.
        started: Number of rows that are running or done.
        done: Size and outputs of the finished chunks by first row.
        since: Time of arrival in seconds of ``time.monotonic``.
    """

    servable: Servable
    request: PredictRequest
    outputs: asyncio.Future[Arrays]
    started: int = 0
    done: dict[int, tuple[int, Arrays]] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    @property
    def rows_left(self) -> int:
        """Return the number of rows not yet started."""
        return self.request.rows - self.started

    def can_share_batch(self, other: Job) -> bool:
        """Return whether rows of both may share a batch."""
        mine, theirs = self.request, other.request
        return (
            self.servable is other.servable
            and mine.signature.name == theirs.signature.name
            and mine.signature.joinable
            and all(a.shape[1:] == theirs.inputs[name].shape[1:] for name, a in mine.inputs.items())
        )


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a job that run in one batch."""

    job: Job
    start: int
    rows: int

    def inputs(self) -> Arrays:
        """Return the inputs of these rows."""
        if not self.job.request.signature.by_row:
            return self.job.request.inputs
        stop = self.start + self.rows
        return {name: array[self.start : stop] for name, array in self.job.request.inputs.items()}


def run(chunks: Sequence[Chunk]) -> list[Result]:
    """Run chunks as one batch; if it fails, run each alone, so that only the faulty one fails.

    Args:
        chunks: Chunks of jobs with the same signature.

    Returns:
        A result for each chunk.
    """
    job = chunks[0].job
    signature = job.request.signature
    try:
        outputs = job.servable.run(
            signature.name, _join_inputs([chunk.inputs() for chunk in chunks])
        )
        if signature.by_row:
            _check_rows(outputs, sum(chunk.rows for chunk in chunks))
    except Exception as error:
        if len(chunks) == 1:
            return [to_rest_error(error)]
        return [result for chunk in chunks for result in run([chunk])]
    if len(chunks) == 1:
        return [outputs]
    ends = np.cumsum([chunk.rows for chunk in chunks])
    return [
        {name: array[end - chunk.rows : end] for name, array in outputs.items()}
        for chunk, end in zip(chunks, ends, strict=True)
    ]


def join_outputs(signature: Signature, parts: Sequence[Arrays]) -> Arrays:
    """Join the outputs of a request's chunks in order, as if it had run in one batch.

    Variable dimensions are padded with "" and zeros to the longest chunk, as inside a chunk.
    """
    if len(parts) == 1:
        return parts[0]
    return {
        name: _pad_and_join([part[name] for part in parts], signature.outputs[name])
        for name in parts[0]
    }


def _join_inputs(inputs: Sequence[Arrays]) -> Arrays:
    if len(inputs) == 1:
        return inputs[0]
    return {name: np.concatenate([part[name] for part in inputs]) for name in inputs[0]}


def _check_rows(outputs: Arrays, rows: int) -> None:
    for name, array in outputs.items():
        if array.shape[:1] != (rows,):
            got = list(array.shape)
            raise RestError(f"{name}: expected {rows} rows, got the shape {got}", "INTERNAL")


def _pad_and_join(parts: Sequence[Array], spec: Spec) -> Array:
    sizes = tuple(np.max([part.shape[1:] for part in parts], axis=0))
    if all(part.shape[1:] == sizes for part in parts):
        return np.concatenate(parts)
    result = spec.empty((sum(len(part) for part in parts), *sizes))
    start = 0
    for part in parts:
        inside = (slice(start, start + len(part)), *map(slice, part.shape[1:]))
        result[inside] = part
        start += len(part)
    return result
