"""What a batch is made of, how it runs, and how the pieces of a request come together again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_transformer.server.decode import Request
from keras_transformer.server.errors import RestError
from keras_transformer.server.servable import Servable, explain
from keras_transformer.server.signature import Array, Arrays, Signature, Spec

Answer = Arrays | RestError


@dataclass(eq=False)
class Job:
    """A request on its way through the queue.

    Attributes:
        servable: What answers it.
        request: What is asked.
        answer: Becomes the outputs; cancelled when nobody waits any more.
        taken: Rows that are running or done.
        done: Outputs of the pieces that are done, by first row.
        since: When it came, in seconds of a monotonic clock.
    """

    servable: Servable
    request: Request
    answer: asyncio.Future[Arrays]
    taken: int = 0
    done: dict[int, tuple[int, Arrays]] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """Rows that have not been started."""
        return self.request.rows - self.taken

    def joins(self, other: Job) -> bool:
        """Rows of both may run in one batch."""
        mine, theirs = self.request, other.request
        return (
            self.servable is other.servable
            and mine.signature.name == theirs.signature.name
            and mine.signature.joinable
            and all(a.shape[1:] == theirs.inputs[name].shape[1:] for name, a in mine.inputs.items())
        )


@dataclass(frozen=True)
class Chunk:
    """Rows of a job that run in one batch."""

    job: Job
    start: int
    rows: int

    def inputs(self) -> Arrays:
        """The inputs of these rows."""
        if not self.job.request.signature.by_row:
            return self.job.request.inputs
        stop = self.start + self.rows
        return {name: array[self.start : stop] for name, array in self.job.request.inputs.items()}


def run(chunks: Sequence[Chunk]) -> list[Answer]:
    """Run pieces as one batch; if it fails, each by itself, so that one spoils no other.

    Args:
        pieces: Of jobs with the same signature.

    Returns:
        The outputs, or what went wrong, for each piece.
    """
    job = chunks[0].job
    signature = job.request.signature
    try:
        outputs = job.servable.run(signature.name, _joined([chunk.inputs() for chunk in chunks]))
        if signature.by_row:
            _check_rows(outputs, sum(chunk.rows for chunk in chunks))
    except Exception as error:
        if len(chunks) == 1:
            return [explain(error)]
        return [answer for chunk in chunks for answer in run([chunk])]
    if len(chunks) == 1:
        return [outputs]
    ends = np.cumsum([chunk.rows for chunk in chunks])
    return [
        {name: array[end - chunk.rows : end] for name, array in outputs.items()}
        for chunk, end in zip(chunks, ends, strict=True)
    ]


def join(signature: Signature, parts: Sequence[Arrays]) -> Arrays:
    """Outputs of a request's pieces, in order, as if it had run in one.

    Free dimensions are padded to the longest piece with "" and zeros, as they are inside one.
    """
    if len(parts) == 1:
        return parts[0]
    return {
        name: _padded([part[name] for part in parts], signature.outputs[name]) for name in parts[0]
    }


def _joined(inputs: Sequence[Arrays]) -> Arrays:
    if len(inputs) == 1:
        return inputs[0]
    return {name: np.concatenate([part[name] for part in inputs]) for name in inputs[0]}


def _check_rows(outputs: Arrays, rows: int) -> None:
    for name, array in outputs.items():
        if array.shape[:1] != (rows,):
            got = list(array.shape)
            raise RestError(f"{name}: {rows} rows went in, the shape {got} came out", "INTERNAL")


def _padded(parts: Sequence[Array], spec: Spec) -> Array:
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
