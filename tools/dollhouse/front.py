"""HTTP without sockets: the gateway's own protocol on connections in memory, which break when their process does."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from dollhouse.connection import Gate
from gangline_gateway.config import Config
from gangline_kit.errors import OutcomeUnknownError, TemporaryError

HOP_S = 0.0004
"""One way between a client and a gateway."""
HOST = "127.0.0.1"
DIES_S = 0.001
"""A handler of a process that died gets no further than this."""


class Answered(Struct, frozen=True):
    """One answer of the HTTP API."""

    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes


class Pipe(asyncio.Transport):
    """The gateway's end of one client's connection."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        """Open; `protocol` is whoever answers."""
        super().__init__()
        self.protocol = protocol
        self.answer = bytearray()
        self.closed = asyncio.Event()
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.Transport; who was hung up on is told nothing."""
        if not self.closed.is_set():
            self.answer += data

    def is_closing(self) -> bool:
        """See asyncio.Transport."""
        return self.closed.is_set()

    def close(self) -> None:
        """See asyncio.Transport."""
        self.break_off(None)

    def abort(self) -> None:
        """See asyncio.Transport."""
        self.break_off(ConnectionResetError("aborted"))

    def break_off(self, why: Exception | None) -> None:
        """No end hears the other any more."""
        if not self.closed.is_set():
            self.closed.set()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, why)

    def is_reading(self) -> bool:
        """See asyncio.Transport."""
        return True

    def pause_reading(self) -> None:
        """Requests are there as a whole already."""

    def resume_reading(self) -> None:
        """As they were."""


class Door(Struct, eq=False):
    """Where one gateway process takes connections."""

    name: str
    gate: Gate
    server: Callable[[], asyncio.Protocol]
    pipes: dict[Pipe, None] = {}
    """Open ones."""


class Front:
    """All gateways of a town, as their clients see them."""

    def __init__(self) -> None:
        """No gateway listens."""
        self.doors: dict[str, Door] = {}

    def listener(self, name: str, gate: Gate) -> Callable[[web.AppRunner, Config], Awaitable[str]]:
        """What lets the gateway of this process be found; see gangline_gateway.app.Listen."""

        async def listen(runner: web.AppRunner, config: Config) -> str:
            assert runner.server is not None, "the runner is set up"
            self.doors[name] = Door(name=name, gate=gate, server=runner.server, pipes={})
            return f"memory:{name}"

        return listen

    def leave(self, name: str) -> None:
        """Nobody listens here any more; who is being answered still is."""
        self.doors.pop(name, None)

    async def kill(self, name: str) -> None:
        """A gateway is gone with all its connections, whatever it was about to say."""
        door = self.doors.pop(name, None)
        if door is not None:
            for pipe in list(door.pipes):
                pipe.break_off(ConnectionResetError("the process died"))
            await door.server.shutdown(DIES_S)  # type: ignore[attr-defined]  # an aiohttp server, which makes protocols

    async def call(
        self, door: Door, request: bytes, *, within_s: float, hang_up_s: float | None = None
    ) -> Answered | None:
        """Send one request and read its answer; None when the client hung up after `hang_up_s`.

        Raises:
            TemporaryError: nobody listens; OutcomeUnknownError: no whole answer came.
        """
        try:
            async with asyncio.timeout(within_s):
                await asyncio.sleep(HOP_S)
                await door.gate.passed()
        except TimeoutError:
            raise OutcomeUnknownError(f"{door.name} does not answer") from None
        if self.doors.get(door.name) is not door:
            raise TemporaryError(f"{door.name} is gone")
        pipe = Pipe(door.server())
        door.pipes[pipe] = None
        try:
            pipe.protocol.data_received(request)
            async with asyncio.timeout(within_s if hang_up_s is None else hang_up_s):
                await pipe.closed.wait()
                await asyncio.sleep(HOP_S)
        except TimeoutError:
            if hang_up_s is not None:
                return None
            raise OutcomeUnknownError(f"{door.name} does not answer in time") from None
        finally:
            pipe.break_off(ConnectionResetError("the client hung up"))
            door.pipes.pop(pipe, None)
        return read_answer(bytes(pipe.answer))


def write_request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """One request of HTTP/1.0, after whose answer the connection ends."""
    lines = [f"{method} {path} HTTP/1.0", f"Host: {HOST}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_answer(data: bytes) -> Answered:
    """The answer in these bytes.

    Raises:
        OutcomeUnknownError: it broke off.
    """
    head, separator, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if not separator or len(body) < int(headers.get("content-length", 0)):
        raise OutcomeUnknownError("the connection broke off")
    return Answered(status=int(lines[0].split()[1]), headers=headers, body=body)


def json_of(answered: Answered) -> dict[str, Any]:
    """The JSON object of an answer's body."""
    return msgspec.json.decode(answered.body, type=dict[str, Any])
