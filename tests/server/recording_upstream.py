"""A scripted TensorFlow Serving that records what reaches it, and a caller of ASGI applications."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

import h11


def metadata(version="1", **signatures):
    """Return a reply of TensorFlow Serving: inputs of each signature by name, type and sizes."""

    def tensor(dtype, *sizes):
        dims = [{"size": str(size), "name": ""} for size in sizes]
        return {"dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": "x"}

    definitions = {
        name: {
            "inputs": {key: tensor(*spec) for key, spec in inputs.items()},
            "outputs": {"translation": tensor("DT_STRING", -1)},
            "method_name": "tensorflow/serving/predict",
        }
        for name, inputs in signatures.items()
    }
    return {
        "model_spec": {"name": "toy", "signature_name": "", "version": version},
        "metadata": {"signature_def": {"signature_def": definitions}},
    }


TOY = metadata(
    serving_default={"text": ("DT_STRING", -1)},
    options={"text": ("DT_STRING", -1), "alpha": ("DT_FLOAT", -1)},
)


@dataclass
class Received:
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Reply:
    """A reply: raw bytes are sent as they are, then the connection is closed."""

    status: int = 200
    body: bytes = b'{"predictions": []}'
    headers: list[tuple[str, str]] = field(default_factory=list)
    raw: bytes | None = None
    wait: float = 0.0


class RecordingUpstream:
    """An HTTP server in the running event loop.

    Attributes:
        received: All requests but those for metadata.
        metadata: Replies for metadata by path of the model; others get 404.
        answer: Makes the reply to any other request.
        connections: Number of connections so far.
    """

    def __init__(self):
        self.received = []
        self.metadata = {"/v1/models/toy": TOY}
        self.metadata_reads = 0
        self.answer = lambda received: Reply()
        self.connections = 0
        self.open = 0

    async def start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def close(self):
        self.server.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        with contextlib.suppress(ConnectionError, h11.RemoteProtocolError):
            await self._answer_all(reader, writer)
        self.open -= 1
        writer.close()

    async def _answer_all(self, reader, writer):
        protocol = h11.Connection(h11.SERVER)
        while True:
            body = b""
            while True:
                event = protocol.next_event()
                if event is h11.NEED_DATA:
                    protocol.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return
            reply = self._reply(
                Received(
                    request.method.decode(), request.target.decode(), list(request.headers), body
                )
            )
            if reply.wait:
                await asyncio.sleep(reply.wait)
            if reply.raw is not None:
                writer.write(reply.raw)
                await writer.drain()
                return
            headers = [("Content-Length", str(len(reply.body))), *reply.headers]
            writer.write(protocol.send(h11.Response(status_code=reply.status, headers=headers)))
            writer.write(protocol.send(h11.Data(reply.body)))
            writer.write(protocol.send(h11.EndOfMessage()))
            await writer.drain()
            if protocol.our_state is not h11.DONE:
                return
            protocol.start_next_cycle()

    def _reply(self, received):
        path = received.target.removesuffix("/metadata")
        if received.method == "GET" and path != received.target:
            self.metadata_reads += 1
            found = self.metadata.get(path)
            if found is None:
                message = {"error": f"Could not find any versions of model {path}"}
                return Reply(404, json.dumps(message).encode())
            return Reply(200, json.dumps(found).encode())
        self.received.append(received)
        return self.answer(received)


@dataclass
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool

    @property
    def error(self):
        return json.loads(self.body)["error"]


async def call(app, method, target, body=b"", headers=(), gone=None):
    """Send a request to an ASGI application.

    Args:
        body: Bytes, or a list of parts.
        gone: An event that is set when the client disconnects; None: it stays.
    """
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode("latin-1"),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }
    parts = [body] if isinstance(body, bytes) else list(body)
    sent = []

    async def receive():
        if parts:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async with asyncio.timeout(20):
        await app(scope, receive, send)
    if not sent:
        return None
    return Answer(
        sent[0]["status"],
        sent[0]["headers"],
        b"".join(message["body"] for message in sent[1:]),
        len(sent) > 1 and not sent[-1].get("more_body", False),
    )
