"""An event loop whose time stands still while anybody works and jumps to the next timer when nobody does."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingWillHappenError(Exception):
    """Everybody waits for somebody else and no timer runs: the house is dead."""


class _Selector(selectors.DefaultSelector):
    """Never waits: what it was asked to wait is added to the loop's time instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise NothingWillHappenError("no timer runs and nobody is ready")
        if not ready and timeout is not None and timeout > 0:
            self.now_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time is the selector's; work for threads is done at once, so that every run is the same."""

    def __init__(self) -> None:
        """A loop at time zero."""
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._virtual.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # typeshed binds args by a type variable tuple
        """Call the function now; its result or error is there at once."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the future's
            future.set_exception(error)
        return future


def live(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)
