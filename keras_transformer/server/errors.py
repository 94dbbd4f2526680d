"""Errors of the REST interface."""

from __future__ import annotations

# HTTP status of TensorFlow's error codes, as in TensorFlow Serving.
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
    """An error that is sent to the client.

    Attributes:
        code: Name of TensorFlow's error code.
        status: HTTP status.
        headers: Additional headers of the reply.
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
    """The client disconnected before the reply."""
