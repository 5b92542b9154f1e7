"""Time of a dollhouse: the event loop's own, which a virtual loop lets run as fast as it can."""

import asyncio

from dollhouse.connection import Gate
from dollhouse.loop import pause
from gangline_kit.clock import STEP_S_MAX

EPOCH_MS = 1_700_000_000_000
"""Wall time when the loop's clock shows zero."""


class LoopClock:
    """Wall and steady time read off the event loop."""

    def __init__(self, gate: Gate | None = None) -> None:
        """A clock that is right; `gate` is that of the process whose clock it is."""
        self.offset_ms = 0
        """How wrong the wall clock stands; somebody may set it at any time."""
        self.agreed_ms = 0
        """What was found wrong at the start, and is taken off since."""
        self.asked_wrong = 0
        """How often somebody asked for the time while it stood wrong."""
        self._gate = gate

    def agree(self, server_ms: int) -> float:
        """See gangline_kit.clock.Clock."""
        wrong_ms = self.now_ms() - server_ms
        if abs(wrong_ms) > STEP_S_MAX * 1000:
            self.agreed_ms += wrong_ms
        return wrong_ms / 1000

    def set_right(self) -> None:
        """The machine's clock is right, and nothing has to be taken off."""
        self.offset_ms = self.agreed_ms = 0

    def now_ms(self) -> int:
        """See gangline_kit.clock.Clock."""
        self.asked_wrong += self.offset_ms != 0
        return EPOCH_MS + self.offset_ms - self.agreed_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic_s(self) -> float:
        """See gangline_kit.clock.Clock."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """See gangline_kit.clock.Clock."""
        await pause(seconds)
        if self._gate is not None:
            await self._gate.passed()
