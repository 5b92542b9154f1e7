"""Connections to a gateway with a certificate until they are encrypted: they count, and have little time.

Loops that are given a certificate tell nobody of a connection before its handshake is over. So they are given each
connection only after it was counted here.
"""

import asyncio
import logging
import os
import socket
from collections import Counter
from contextlib import suppress

from aiohttp import web

from gangline_gateway.unreadable import Server, connections_most

log = logging.getLogger(__name__)

HANDSHAKE_S_MAX = 10.0
"""From the connection to the end of its handshake; a link to the other end of the world needs one or two."""
SHARE = 4
"""One in so many of the connections that may be open may be shaking hands."""
AT_ONCE = 16
"""Connections taken in one turn of the loop: whoever is hung up on meanwhile is gone after the next."""
OUT_OF_FILES_S = 1.0
"""Until we look again whether somebody came, after the machine had no room for one more."""


class EncryptedSite(web.TCPSite):
    """Listens like any other, and knows who has not ended the handshake."""

    __slots__ = ("_doors", "_shaking", "_tasks")

    async def start(self) -> None:
        """Listen."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._shaking: dict[socket.socket, str] = {}  # with the address it came from; the oldest first
        self._doors: list[socket.socket] = []
        await web.BaseSite.start(self)
        server = self._runner.server
        assert isinstance(server, Server)
        server.arriving = self._shaking
        loop = asyncio.get_running_loop()
        # It finds and binds the addresses, but takes no connection.
        self._server = await loop.create_server(server, self._host, self._port, start_serving=False)
        for bound in self._server.sockets:
            door = socket.socket(fileno=os.dup(bound.fileno()))
            self._doors.append(door)
            door.setblocking(False)
            door.listen(self._backlog)
            loop.add_reader(door, self._let_in, door)

    async def stop(self) -> None:
        """Let nobody in any more, and hang up on whoever is not encrypted."""
        for door in self._doors:
            asyncio.get_running_loop().remove_reader(door)
            door.close()
        for line in self._shaking:
            _hang_up(line)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().stop()

    def _let_in(self, door: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                line, address = door.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("nobody can be let in for now: %s", error)
                self._rest(door)
                return
            line.setblocking(False)
            self._shaking[line] = address[0]
            task = asyncio.get_running_loop().create_task(self._shake(line), name="handshake")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._make_room()

    def _rest(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(door)

        def again() -> None:
            if door.fileno() != -1:
                loop.add_reader(door, self._let_in, door)

        loop.call_later(OUT_OF_FILES_S, again)

    def _make_room(self) -> None:
        """Hang up on the oldest of the address with the most handshakes when too many are under way."""
        server = self._runner.server
        assert isinstance(server, Server)
        if len(self._shaking) > max(1, connections_most() // SHARE):
            [(crowded, _)] = Counter(self._shaking.values()).most_common(1)
            oldest = next(line for line, address in self._shaking.items() if address == crowded)
            del self._shaking[oldest]
            _hang_up(oldest)
        server.make_room()

    async def _shake(self, line: socket.socket) -> None:
        """Until the connection is encrypted, or was given up: by the other side, by us, or for the time it took."""
        assert self._runner.server is not None
        try:
            with suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._runner.server, line, ssl=self._ssl_context, ssl_handshake_timeout=HANDSHAKE_S_MAX
                )
        finally:
            # However it ended: what stays here counts for ever.
            self._shaking.pop(line, None)


def _hang_up(line: socket.socket) -> None:
    """The loop sees the end of what the other side says, and closes it as if that side had hung up.

    To cancel its task is not enough: one that was given to the loop and not yet looked at would go on without it.
    """
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
