"""An event loop whose time stands still while anybody works and jumps to the next timer when nobody does.

A run is a few hundred thousand waits and little else, so the loop does less than asyncio's own: it polls nothing, since
everything outside is in memory, and keeps its timers as plain tuples: those of one moment ring in the order in which
they were set.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")

MOMENT_S = 1e-9
"""Timers so close to each other ring at once, as in asyncio."""


class NothingWillHappenError(Exception):
    """Everybody waits for somebody else and no timer runs: the house is dead."""


class _Soon(asyncio.Handle):
    """A call that is due; what asyncio does for debugging is left out."""

    __slots__ = ()

    # All of the parent's work is done here.
    def __init__(self, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr: str | None = None
        self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """A call that is due at some time; it stays in the heap when it is cancelled and is then passed over."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr: str | None = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        """It will not ring, and keeps nothing alive meanwhile."""
        self._cancelled = True
        self._callback = None
        self._args = ()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time is a number; work for threads is done at once, so that every run is the same."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        """A loop at time zero."""
        self._now_s = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._count = 0
        super().__init__()

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now_s

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]  # typeshed binds args by a type variable tuple
        """See asyncio."""
        handle = _Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]  # typeshed binds args by a type variable tuple
        """See asyncio."""
        timer = _Timer(when, callback, args, self, context)
        self._count += 1
        heappush(self._timers, (when, self._count, timer))
        return timer

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]  # typeshed binds args by a type variable tuple
        """See asyncio."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # typeshed binds args by a type variable tuple
        """Call the function now; its result or error is there at once."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the future's
            future.set_exception(error)
        return future

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def _run_once(self) -> None:
        """Everything that is due now, once; when nothing is, time jumps first."""
        ready = self._ready
        if not ready:
            self._jump()
        self._ring()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _jump(self) -> None:
        """Let it be as late as the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            if self._stopping:
                return
            raise NothingWillHappenError("no timer runs and nobody is ready")
        self._now_s = max(self._now_s, timers[0][0])

    def _ring(self) -> None:
        """What is due now is ready."""
        timers, until_s = self._timers, self._now_s + MOMENT_S
        while timers and timers[0][0] < until_s:
            self._ready.append(heappop(timers)[2])


async def pause(seconds: float) -> None:
    """Sleep; the same as `asyncio.sleep` with less around it, for a loop that is a `VirtualLoop`."""
    loop = asyncio.get_running_loop()
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    rung: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _ring_for, rung)
    try:
        await rung
    finally:
        timer.cancel()


def _ring_for(rung: asyncio.Future[None]) -> None:
    if not rung.done():
        rung.set_result(None)


def live(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)
