"""The one door to time: wall time in ms for facts, a monotonic clock for deadlines, and sleep."""

import asyncio
import heapq
import time
from typing import Protocol

STEP_S_MAX = 1.0
"""A wall clock that moves by more than this against the machine's steady clock was set by hand; we do not follow it."""


class Clock(Protocol):
    """What anybody who needs time asks for."""

    def now_ms(self) -> int:
        """Wall time in ms since the Unix epoch; never goes back within one process."""

    def agree(self, server_ms: int) -> float:
        """Take over the time of the bus if ours is clearly another; gives by how many seconds ours was wrong."""

    def monotonic_s(self) -> float:
        """Steady time in seconds, counting time asleep; for deadlines and leases only."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


def _steady_s() -> float:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()  # noqa: TID251 - this is the door


class SystemClock:
    """The machine's clocks.

    A wall clock that is set forward or back by hand (or by a bad time server) must not make leases, waits and charges
    jump in a running process, so wall time is anchored at the start and follows small corrections only.
    """

    def __init__(self) -> None:
        """Anchor wall time to the steady clock."""
        self._offset_s = time.time() - _steady_s()  # noqa: TID251 - this is the door
        self._last_ms = 0
        self._wrong_s = 0.0
        """How far the machine's clock was from the bus's when we began."""

    def agree(self, server_ms: int) -> float:
        """See Clock; a process that begins on a machine whose clock is wrong must not date facts by it."""
        wrong_s = self.now_ms() / 1000 - server_ms / 1000
        if abs(wrong_s) > STEP_S_MAX:
            self._wrong_s += wrong_s
            self._last_ms = 0
        return wrong_s

    def now_ms(self) -> int:
        """See Clock."""
        steady = _steady_s()
        offset = time.time() - steady  # noqa: TID251 - this is the door
        if abs(offset - self._offset_s) <= STEP_S_MAX:
            self._offset_s = offset
        self._last_ms = max(self._last_ms, int((steady + self._offset_s - self._wrong_s) * 1000))
        return self._last_ms

    def step_s(self) -> float:
        """How far the wall clock stands from the time we use; large when somebody set it."""
        return time.time() - _steady_s() - self._offset_s  # noqa: TID251 - this is the door

    def monotonic_s(self) -> float:
        """See Clock."""
        return _steady_s()

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is moved: for tests and simulations."""

    def __init__(self, now_ms: int = 0) -> None:
        """Start at the given wall time."""
        self._now_ms = now_ms
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def agree(self, server_ms: int) -> float:
        """Whoever moves this clock knows better."""
        return (self._now_ms - server_ms) / 1000

    def now_ms(self) -> int:
        """See Clock."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """See Clock."""
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        """Wait until somebody moves the clock far enough."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_ms + int(seconds * 1000), self._count, waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking sleepers in order and letting them run."""
        until = self._now_ms + int(seconds * 1000)
        while self._sleepers and self._sleepers[0][0] <= until:
            at, _, waiter = heapq.heappop(self._sleepers)
            self._now_ms = max(self._now_ms, at)
            if not waiter.done():
                waiter.set_result(None)
            for _ in range(SETTLE_TURNS):
                await asyncio.sleep(0)
        self._now_ms = until
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)


SETTLE_TURNS = 10
"""Turns of the loop that woken sleepers get before time moves on."""
