"""What is answered to a request that is no HTTP, or that says two things at once: a problem, like every other refusal.

Such a request never becomes one of ours: the HTTP library refuses it before any route is looked for, in words of its
own that repeat what was sent.
"""

import asyncio
import resource
from collections.abc import Sized
from functools import cache
from itertools import islice

from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong

from gangline_gateway.call import encode_view
from gangline_gateway.door import SAFE_HEADERS
from gangline_gateway.problems import MEDIA_TYPE, ProblemError
from gangline_wire.limits import most

FILES_KEPT = 512
"""File descriptors that connections leave to everything else."""


class Speaker(web.RequestHandler):
    """One connection."""

    __slots__ = ()

    @property
    def is_idle(self) -> bool:
        """True while it has said no whole request that is not answered yet."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody came; whoever says nothing for longest goes when there are too many."""
        super().connection_made(transport)
        if isinstance(self._manager, Server):
            self._manager.make_room()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what cannot be read; the connection is not used again."""
        # Tells the log, and hangs up where an answer was begun.
        super().handle_error(request, status, exc, message)
        problem = _problem(status, exc)
        body = encode_view(problem.view(instance="", request_id=""))
        answer = web.Response(body=body, status=problem.status, headers={hdrs.CONTENT_TYPE: MEDIA_TYPE, **SAFE_HEADERS})
        answer.force_close()
        return answer


class Server(web.Server):
    """Makes a Speaker for every connection."""

    arriving: Sized = ()
    """Connections that are not encrypted yet, where they are to be."""

    def __call__(self) -> web.RequestHandler:
        """A new connection."""
        return Speaker(self, loop=self._loop, **self._kwargs)

    def make_room(self) -> None:
        """Hang up on connections that are idle, the oldest first, until there are no more than may be open."""
        open_ones = self.connections
        too_many = len(open_ones) + len(self.arriving) - connections_most()
        idle = (one for one in open_ones if isinstance(one, Speaker) and one.is_idle)
        for one in islice(idle, max(0, too_many)):
            one.force_close()


class Runner(web.AppRunner):
    """Runs the application behind such a server."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = Server
        return server


@cache
def connections_most() -> int:
    """How many connections may be open: what this process may open beyond is for the bus, logs and files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most("connections") + FILES_KEPT
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return most("connections")
    return min(most("connections"), max(soft - FILES_KEPT, soft // 2))


def _problem(status: int, error: BaseException | None) -> ProblemError:
    if status >= 500:
        return ProblemError("internal", "Report it with the time of day.")
    if isinstance(error, LineTooLong):
        return ProblemError("headers_too_large", "The address or a header is too long.")
    return ProblemError("malformed_request", "This is no HTTP request, or one that can be read in two ways.")
