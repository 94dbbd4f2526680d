"""HTTP/1.1 client of the gateway: a bounded pool of connections to one server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import h11

from keras_transformer.server.errors import RestError
from keras_transformer.server.settings import Address

log = logging.getLogger("keras_transformer.serve")

Headers = list[tuple[bytes, bytes]]

_READ = 65536
# Below the idle timeout of servers, which would close the connection while a request is sent.
_IDLE_S = 15.0
_CONNECTION_ERRORS = (OSError, EOFError, h11.RemoteProtocolError)


@dataclass(frozen=True)
class UpstreamRequest:
    """A request to the server.

    Attributes:
        method: HTTP method.
        target: Path and query as they are sent.
        headers: Headers without Host and Content-Length.
        body: The whole body; None: a request without a body.
    """

    method: str
    target: bytes
    headers: Headers = field(default_factory=list)
    body: bytes | None = None


class _Connection:
    """A connection, which carries one request at a time.

    Attributes:
        reused: It has carried a request before the current one.
        received: Bytes of the reply to the current request have come.
        idle_since: Time of the last reply's end, by `time.monotonic`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ)
        self.reused = False
        self.received = False
        self.idle_since = time.monotonic()

    @property
    def alive(self) -> bool:
        """Return False if the server has closed the connection, or may do so now."""
        idle = time.monotonic() - self.idle_since
        return idle < _IDLE_S and not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, outgoing: UpstreamRequest, host: bytes) -> None:
        """Send a whole request."""
        self.received = False
        headers = [(b"host", host), *outgoing.headers]
        if outgoing.body is not None:
            headers.append((b"content-length", str(len(outgoing.body)).encode()))
        request = h11.Request(method=outgoing.method, target=outgoing.target, headers=headers)
        data = self._protocol.send(request) or b""
        if outgoing.body:
            data += self._protocol.send(h11.Data(outgoing.body)) or b""
        data += self._protocol.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        # A server that refuses a large body may answer and close before it has read all.
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def next_event(self) -> h11.Event:
        """Return the next part of the reply.

        Raises:
            EOFError: The server has switched to another protocol.
        """
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                raise EOFError
            data = await self._reader.read(_READ)
            self.received = self.received or bool(data)
            self._protocol.receive_data(data)

    def finish(self) -> bool:
        """Prepare for the next request; return False if the connection cannot carry another one."""
        states = {self._protocol.our_state, self._protocol.their_state}
        if states != {h11.DONE}:
            return False
        self._protocol.start_next_cycle()
        self.reused, self.idle_since = True, time.monotonic()
        return True

    def close(self) -> None:
        """Close without waiting."""
        self._writer.close()


@dataclass
class Reply:
    """The reply of the server; ``chunks`` or ``read`` reads its body.

    Attributes:
        status: HTTP status.
        headers: Headers, names in lower case.
    """

    status: int
    headers: Headers
    _connection: _Connection
    _read_timeout_s: float

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the body.

        Raises:
            RestError: The body breaks off, or its next chunk does not come in time.
        """
        while True:
            try:
                async with asyncio.timeout(self._read_timeout_s):
                    event = await self._connection.next_event()
            except TimeoutError:
                raise RestError("the reply of the model server stopped", "UNKNOWN", 504) from None
            except _CONNECTION_ERRORS:
                raise RestError("the reply of the model server broke off", "UNKNOWN", 502) from None
            if not isinstance(event, h11.Data):
                return
            yield bytes(event.data)

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            RestError: It is longer than ``limit`` bytes, or breaks off.
        """
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                raise RestError("the reply of the model server is too long", "UNKNOWN", 502)
        return bytes(body)


class Upstream:
    """A server, and the connections to it.

    Args:
        address: The server.
        connections: Greatest number of connections.
        connect_s: Time limit of a connection attempt.
        read_timeout_s: Longest time between two chunks of a reply's body.
    """

    def __init__(
        self, address: Address, connections: int, connect_s: float, read_timeout_s: float
    ) -> None:
        self.address = address
        self._connect_s = connect_s
        self._read_timeout_s = read_timeout_s
        self._size = connections
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[_Connection] = []
        self._tls = ssl.create_default_context() if address.tls else None
        self._down = False

    @contextlib.asynccontextmanager
    async def request(self, outgoing: UpstreamRequest, deadline: float) -> AsyncIterator[Reply]:
        """Send a request and yield its reply; the connection is free again after the block.

        Args:
            outgoing: The request. It is sent again, over another connection, if the server has
                closed the first one while it was idle.
            deadline: Latest start of the reply, on the event loop's clock.

        Raises:
            RestError: 502 the connection broke or the reply is not HTTP, 503 no connection,
                504 no reply before the deadline.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise _unavailable(
                f"all {self._size} connections to the model server are busy"
            ) from None
        connection = None
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    connection, head = await self._exchange(outgoing)
            except TimeoutError:
                raise RestError(
                    "no answer from the model server in time", "DEADLINE_EXCEEDED"
                ) from None
            yield Reply(head.status_code, list(head.headers), connection, self._read_timeout_s)
        finally:
            self._slots.release()
            if connection is not None:
                if connection.finish():
                    self._idle.append(connection)
                else:
                    connection.close()

    async def _exchange(self, outgoing: UpstreamRequest) -> tuple[_Connection, h11.Response]:
        """Send a request and wait for the head of its reply."""
        while True:
            connection = self._pop_idle() or await self._connect()
            try:
                await connection.send(outgoing, self.address.header)
                while not isinstance(event := await connection.next_event(), h11.Response):
                    if not isinstance(event, h11.InformationalResponse):
                        raise EOFError
                return connection, event
            except _CONNECTION_ERRORS as error:
                connection.close()
                if connection.reused and not connection.received:
                    continue  # the server has closed it while it was idle
                log.warning("%s: connection broken: %s", self.address, error or "no reply")
                reason = "the model server closed the connection before its answer"
                if isinstance(error, h11.RemoteProtocolError) and connection.received:
                    reason = "the model server's answer is not valid HTTP"
                raise RestError(reason, "UNKNOWN", 502) from None
            except BaseException:
                connection.close()
                raise

    def _pop_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_s):
                streams = await asyncio.open_connection(
                    self.address.host, self.address.port, ssl=self._tls
                )
        except (OSError, UnicodeError) as error:  # a time-out is an OSError without a text
            if not self._down:
                log.warning("%s: cannot connect: %s", self.address, error or "time-out")
            self._down = True
            raise _unavailable("cannot connect to the model server") from None
        if self._down:
            log.info("%s: connected again", self.address)
        self._down = False
        return _Connection(*streams)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


def _unavailable(message: str) -> RestError:
    return RestError(message, "UNAVAILABLE", headers={"Retry-After": "1"})
