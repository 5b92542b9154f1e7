"""A small answer that is ready as bytes and leaves in one write, past the general machinery for responses."""

from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE

READY_BYTES_MAX = 32 << 10
"""Larger bodies go the general way, which copies less."""


def may_be_ready(request: web.Request, body: bytes) -> bool:
    """True for a request whose answer needs nothing special: HTTP/1.1, kept alive, with a body of modest size."""
    return (
        request.version == HttpVersion11
        and request.keep_alive
        and request.method != hdrs.METH_HEAD
        and 0 < len(body) <= READY_BYTES_MAX
    )


class Ready(web.StreamResponse):
    """Status, headers and body of a request that `may_be_ready`."""

    def __init__(self, *, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Headers as they stand in the answer, without length, date and server."""
        super().__init__(status=status)
        self._lines = headers
        self._bytes = body

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write all of it at once; raises ConnectionResetError when the client is gone."""
        if self._eof_sent:
            return None
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        answer = _head(self.status, self._lines, len(self._bytes)) + self._bytes
        self._keep_alive = self._eof_sent = True
        transport.write(answer)
        # Waits only while the client takes nothing.
        await request.writer.drain()
        return None


def _head(status: int, headers: Mapping[str, str], length: int) -> bytes:
    lines = "\r\n".join([f"{name}: {value}" for name, value in headers.items()])
    if lines.count("\n") != len(headers) - 1 or lines.count("\r") != len(headers) - 1:
        raise ValueError("a header's value holds a line break")
    end = f"{hdrs.CONTENT_LENGTH}: {length}\r\n{hdrs.DATE}: {rfc822_formatted_time()}\r\n{_SERVER}\r\n\r\n"
    return f"{_status_line(status)}{lines}\r\n{end}".encode()


_SERVER = f"{hdrs.SERVER}: {SERVER_SOFTWARE}"


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
