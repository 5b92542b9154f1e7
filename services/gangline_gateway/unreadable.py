"""What is answered to a request that is no HTTP, or that says two things at once: a problem, like every other refusal.

Such a request never becomes one of ours: the HTTP library refuses it before any route is looked for, in words of its
own that repeat what was sent.
"""

from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong

from gangline_gateway.call import encode_view
from gangline_gateway.door import SAFE_HEADERS
from gangline_gateway.problems import MEDIA_TYPE, ProblemError


class Speaker(web.RequestHandler):
    """One connection."""

    __slots__ = ()

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

    def __call__(self) -> web.RequestHandler:
        """A new connection."""
        return Speaker(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Runs the application behind such a server."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = Server
        return server


def _problem(status: int, error: BaseException | None) -> ProblemError:
    if status >= 500:
        return ProblemError("internal", "Report it with the time of day.")
    if isinstance(error, LineTooLong):
        return ProblemError("headers_too_large", "The address or a header is too long.")
    return ProblemError("malformed_request", "This is no HTTP request, or one that can be read in two ways.")
