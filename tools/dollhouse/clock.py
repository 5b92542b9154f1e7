"""Time of a dollhouse: the event loop's own, which a virtual loop lets run as fast as it can."""

import asyncio

from dollhouse.connection import Gate

EPOCH_MS = 1_700_000_000_000
"""Wall time when the loop's clock shows zero."""


class LoopClock:
    """Wall and steady time read off the event loop."""

    def __init__(self, gate: Gate | None = None) -> None:
        """A clock that is right; `gate` is that of the process whose clock it is."""
        self.offset_ms = 0
        """How wrong the wall clock stands; somebody may set it at any time."""
        self._gate = gate

    def now_ms(self) -> int:
        """See gangline_kit.clock.Clock."""
        return EPOCH_MS + self.offset_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic_s(self) -> float:
        """See gangline_kit.clock.Clock."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """See gangline_kit.clock.Clock."""
        await asyncio.sleep(seconds)
        if self._gate is not None:
            await self._gate.passed()
