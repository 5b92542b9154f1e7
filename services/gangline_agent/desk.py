"""The desk at which tasks of this machine ask and report while they run: size, notices, "safe", progress. On loopback.

Every task has a token of its own, made from the agent's key and the task's name, so that it can neither read nor speak
for another. Key and port are remembered, so that tasks find the desk again after a restart of the agent.
"""

import asyncio
import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from gangline_agent.journal import write_whole
from gangline_core.ids import TaskId
from gangline_kit.clock import Clock
from gangline_wire.contract import WAIT_S_MAX, WORD_BYTES_MAX, Confirmed, Report, Sizing, out_of_bounds

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
WAITERS_MAX = 4096
"""Questions for news that may be open at the same time; more are answered at once."""
WAITERS_OF_TASK_MAX = 64
"""The same of one task, so that none keeps the others from waiting."""
SHUTDOWN_S = 0.5

Word = TypeVar("Word")


class Memory(Struct, frozen=True):
    """What the desk remembers across restarts; in a file that only this user reads."""

    key: str
    port: int = 0


class Hearer(Protocol):
    """Who is told what tasks say."""

    def sizing(self, name: TaskId) -> Sizing | None:
        """What a task should know now; None for a task that is not here."""

    def safe(self, name: TaskId) -> bool:
        """A member that leaves is safe; False when it was not told to leave."""

    def confirm(self, name: TaskId, word: Confirmed) -> str:
        """The gang met; why that cannot be, or an empty text."""

    def report(self, name: TaskId, said: Report) -> None:
        """How far the job is."""


class Desk:
    """A small web server; `stop` closes it."""

    def __init__(self, file: Path, clock: Clock, hearer: Hearer, *, new_key: Callable[[], str]) -> None:
        """Remember key and port in `file`; nothing listens before `start`."""
        self._file = file
        self._clock = clock
        self._hearer = hearer
        self._memory = self._remembered() or Memory(key=new_key())
        self._news = asyncio.Event()
        self._waiters: Counter[TaskId] = Counter()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on the port of last time if it is free, else on another."""
        app = web.Application(client_max_size=WORD_BYTES_MAX)
        app.router.add_get("/v1/tasks/{task}", self._size)
        app.router.add_get("/v1/tasks/{task}/notice", self._notice)
        app.router.add_post("/v1/tasks/{task}/safe", self._safe)
        app.router.add_post("/v1/tasks/{task}/confirm", self._confirm)
        app.router.add_post("/v1/tasks/{task}/progress", self._progress)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_S,
            auto_decompress=False,  # what nobody reads is not to be unpacked first
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._memory.port).start()
        except OSError:
            log.warning("port %d of the desk is taken: tasks that run already only have their files", self._memory.port)
            await web.TCPSite(self._runner, HOST, 0).start()
        self._memory = Memory(key=self._memory.key, port=int(self._runner.addresses[0][1]))
        write_whole(self._file, msgspec.json.encode(self._memory))

    async def stop(self) -> None:
        """Listen no more."""
        self.tell_news()
        if self._runner is not None:
            await self._runner.cleanup()

    def variables(self, task: TaskId) -> dict[str, str]:
        """Where the task finds the desk, and its token."""
        url = f"http://{HOST}:{self._memory.port}/v1/tasks/{task}"
        return {"GANGLINE_TASK_URL": url, "GANGLINE_TASK_TOKEN": self._token(task)}

    def tell_news(self) -> None:
        """Something changed: whoever waits looks again."""
        self._news.set()
        self._news = asyncio.Event()

    def _remembered(self) -> Memory | None:
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(self._file.read_bytes(), type=Memory)
        return None

    def _token(self, task: str) -> str:
        return hmac.new(self._memory.key.encode(), task.encode(), hashlib.sha256).hexdigest()

    def _task(self, request: web.Request) -> TaskId:
        """The task that asks.

        Raises:
            web.HTTPException: it did not show its token, or it is not here.
        """
        task = request.match_info["task"]
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(errors="replace"), self._token(task).encode()):
            raise web.HTTPUnauthorized(text="this is not the token of this task\n")
        if self._hearer.sizing(TaskId(task)) is None:
            raise web.HTTPNotFound(text="this task is not here\n")
        return TaskId(task)

    async def _size(self, request: web.Request) -> web.Response:
        return _answer(self._hearer.sizing(self._task(request)))

    async def _notice(self, request: web.Request) -> web.Response:
        """Wait for news: the size when its version is another one than `after`, 204 when there is none in time."""
        task, after = self._task(request), request.query.get("after", "")
        try:
            wait_s = min(WAIT_S_MAX, max(0.0, float(request.query.get("wait_s", "30"))))
        except ValueError:
            raise web.HTTPBadRequest(text="wait_s must be a number of seconds\n") from None
        may_wait = self._waiters[task] < WAITERS_OF_TASK_MAX and self._waiters.total() < WAITERS_MAX
        until_s = self._clock.monotonic_s() + (wait_s if may_wait else 0)
        self._waiters[task] += 1
        try:
            while True:
                sizing = self._hearer.sizing(task)
                if sizing is None:
                    raise web.HTTPNotFound(text="this task is over\n")
                left_s = until_s - self._clock.monotonic_s()
                if sizing.version != after:
                    return _answer(sizing)
                if left_s <= 0:
                    return web.Response(status=204)
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._news.wait()
        finally:
            self._waiters[task] -= 1
            if not self._waiters[task]:
                del self._waiters[task]

    async def _safe(self, request: web.Request) -> web.Response:
        if not self._hearer.safe(self._task(request)):
            raise web.HTTPConflict(text="this task was not told to leave\n")
        return web.Response(status=202)

    async def _confirm(self, request: web.Request) -> web.Response:
        task = self._task(request)
        if fault := self._hearer.confirm(task, await _body(request, Confirmed)):
            raise web.HTTPConflict(text=f"{fault}\n")
        return web.Response(status=202)

    async def _progress(self, request: web.Request) -> web.Response:
        task = self._task(request)
        said = await _body(request, Report)
        if senseless := out_of_bounds(said):
            raise web.HTTPBadRequest(text="".join(f"{why}\n" for why in senseless.values()))
        self._hearer.report(task, said)
        return web.Response(status=202)


async def _body(request: web.Request, kind: type[Word]) -> Word:
    """What was posted.

    Raises:
        web.HTTPBadRequest: it is not of this kind.
    """
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None


def _answer(sizing: Sizing | None) -> web.Response:
    if sizing is None:
        raise web.HTTPNotFound(text="this task is not here\n")
    return web.Response(
        body=msgspec.json.encode(sizing), content_type="application/json", headers={"Gangline-Version": sizing.version}
    )
