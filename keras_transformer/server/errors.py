"""Refusals on their way to a client."""

from __future__ import annotations

# HTTP status of each of TensorFlow's error codes, as TF Serving has it.
STATUS = {
    "OK": 200,
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}


class RestError(Exception):
    """What a client is told instead of an answer.

    Attributes:
        code: Name of TensorFlow's error code.
        status: HTTP status.
        headers: What the reply carries besides.
    """

    def __init__(
        self,
        message: str,
        code: str = "INVALID_ARGUMENT",
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code] if status is None else status
        self.headers = headers or {}


class Disconnected(Exception):
    """The client has gone; nobody waits for an answer."""
