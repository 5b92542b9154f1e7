"""The requests that wait for judgement, in the order they came, and the one who waits for enough of them."""

import asyncio
from collections import deque

from msgspec import Struct

from gangline_wire.requests import Request


class Pending(Struct):
    """A request that waits for judgement."""

    request: Request
    size: int
    answer: asyncio.Future[bytes]
    """The encoded reply."""


class WaitingRoom:
    """A queue whose one reader is woken once, when as many wait as it asked for."""

    def __init__(self) -> None:
        """Empty."""
        self._pending: deque[Pending] = deque()
        self._wanted = 0
        self._filled: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._pending)

    def add(self, pending: Pending) -> None:
        """One more."""
        self._pending.append(pending)
        if self._filled is not None and len(self._pending) >= self._wanted and not self._filled.done():
            self._filled.set_result(None)

    def take(self) -> Pending:
        """The one that waits longest; there must be one."""
        return self._pending.popleft()

    @property
    def next_size(self) -> int:
        """Bytes of the one that waits longest; 0 when nobody waits."""
        return self._pending[0].size if self._pending else 0

    async def filled(self, count: int, within_s: float | None = None) -> None:
        """Until at least so many wait, or until the time is over."""
        if len(self._pending) >= count:
            return
        loop = asyncio.get_running_loop()
        self._wanted = count
        self._filled = loop.create_future()
        timer = None if within_s is None else loop.call_later(within_s, _enough, self._filled)
        try:
            await self._filled
        finally:
            self._filled = None
            if timer is not None:
                timer.cancel()


def _enough(filled: asyncio.Future[None]) -> None:
    if not filled.done():
        filled.set_result(None)
