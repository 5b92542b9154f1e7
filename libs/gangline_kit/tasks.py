"""The one door to background tasks: a set that is closed as a whole, so that no task is orphaned."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from gangline_kit.errors import PermanentError

log = logging.getLogger(__name__)

AGAIN_S = 3.0
"""Whoever has not ended by then may have missed that it was cancelled."""


def heed_cancellation() -> None:
    """End the running task if it was cancelled and has not noticed.

    On Python 3.11 a TaskGroup that is ending because of an error raises that error and forgets a cancellation that came
    meanwhile; whoever catches the error and goes on asks here.

    Raises:
        CancelledError: it was.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def alone(work: Coroutine[Any, Any, None], *, name: str) -> None:
    """Run the coroutine in a task of its own, which is cancelled when we are, and wait for it.

    On Python 3.11 a task whose TaskGroup failed while it was ending counts as cancelled ever after. Whoever goes on
    after errors of others, and wants to know whether it was cancelled itself, has them happen elsewhere.
    """
    await asyncio.get_running_loop().create_task(work, name=name)


class Tasks:
    """Background tasks with one owner; `close` ends them all and waits for them."""

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        """`on_failure` hears of a task that raised; without it the failure is logged."""
        self._running: set[asyncio.Task[None]] = set()
        self._on_failure = on_failure
        self.failure: BaseException | None = None
        """What the first failed task raised."""

    def __len__(self) -> int:
        """Tasks running now."""
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run the coroutine until it ends or the set is closed."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self.failure = self.failure or error
        if self._on_failure is not None:
            self._on_failure(error)
        else:
            log.error("task %s failed", task.get_name(), exc_info=error)

    def check(self) -> None:
        """Raise PermanentError when a task failed."""
        if self.failure is not None:
            raise PermanentError(f"a background task failed: {self.failure!r}") from self.failure

    async def drain(self, timeout_s: float) -> None:
        """Let running tasks finish, at most this long."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=timeout_s)

    async def close(self) -> None:
        """Cancel what runs and wait until it is gone; whoever misses it is cancelled again."""
        while self._running:
            running = set(self._running)
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=AGAIN_S)
