"""A platform that answers what a test laid out, over real HTTP, and remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from gangline_wire import views as v

TOKEN = "test-token"


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: object


@dataclass(frozen=True)
class Reply:
    """One answer: a view or text, or a stream that ends or breaks."""

    view: msgspec.Struct | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] | None = None
    breaks: bool = False
    """Cut the connection: before any answer, or after the chunks of a stream."""


class FakePlatform:
    """Answers by method and path; the last answer of a list is given again and again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: dict[tuple[str, str], list[Reply]] = {}
        self._server: TestServer | None = None
        self._news = asyncio.Event()

    @property
    def url(self) -> str:
        assert self._server is not None
        return str(self._server.make_url("")).rstrip("/")

    def answer(self, method: str, path: str, *replies: Reply | msgspec.Struct) -> None:
        """What to say to this request, in turn."""
        found = [reply if isinstance(reply, Reply) else Reply(view=reply) for reply in replies]
        self._answers[method, path] = found

    def requests(self, method: str, path: str) -> list[Asked]:
        """What arrived there, in order."""
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]

    async def arrived(self, method: str, path: str, *, times: int) -> None:
        """Wait until this was asked so often."""
        while len(self.requests(method, path)) < times:
            self._news.clear()
            await self._news.wait()

    async def serve(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._handle)
        self._server = TestServer(app)
        await self._server.start_server()

    async def close(self) -> None:
        assert self._server is not None
        await self._server.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        asked = Asked(
            method=request.method,
            path=request.raw_path.partition("?")[0],
            query=dict(request.query),
            headers=dict(request.headers),
            body=json.loads(body) if body else None,
        )
        self.asked.append(asked)
        self._news.set()
        if asked.headers.get("Authorization") != f"Bearer {TOKEN}" and asked.path != "/version":
            return _whole(problem(401, "unauthorized", "A valid token is needed"))
        replies = self._answers.get((asked.method, asked.path))
        if not replies:
            return _whole(problem(404, "not_found", "There is no such thing"))
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return await _send(request, reply)


async def _send(request: web.Request, reply: Reply) -> web.StreamResponse:
    if reply.breaks and reply.chunks is None:
        assert request.transport is not None
        request.transport.close()
        return web.Response()
    if reply.chunks is None:
        return _whole(reply)
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.enable_chunked_encoding()
    await response.prepare(request)
    for chunk in reply.chunks:
        await response.write(chunk)
    if reply.breaks:
        assert request.transport is not None
        request.transport.close()
    return response


def _whole(reply: Reply) -> web.Response:
    body = msgspec.json.encode(reply.view) if reply.view is not None else b""
    headers = {"Content-Type": "application/json", **reply.headers}
    return web.Response(status=reply.status, body=body, headers=headers)


def problem(
    status: int,
    code: str,
    title: str,
    *,
    detail: str = "",
    errors: tuple[v.FieldErrorView, ...] = (),
    refusals: tuple[v.RefusalView, ...] = (),
    headers: dict[str, str] | None = None,
) -> Reply:
    """A problem as the platform words it."""
    view = v.ProblemView(
        type=f"/problems#{code}", title=title, status=status, code=code, detail=detail, errors=errors, refusals=refusals
    )
    return Reply(view=view, status=status, headers=headers or {})


@asynccontextmanager
async def running() -> AsyncIterator[FakePlatform]:
    """A platform for one test."""
    platform = FakePlatform()
    await platform.serve()
    try:
        yield platform
    finally:
        await platform.close()
