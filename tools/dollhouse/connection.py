"""What may go wrong between one process and the server: cut, swallowed, late, slow, refused, or standing still."""

import asyncio
from collections.abc import Callable
from random import Random

from msgspec import Struct

from dollhouse.loop import pause
from gangline_kit.errors import OutcomeUnknownError, TemporaryError

REFUSED_RETRY_S = 0.2
HOP_S = 0.0004
"""One way to the server and back."""


class Rates(Struct, frozen=True, omit_defaults=True):
    """How often what goes wrong by itself, as shares of one; how much later messages come, at most, in seconds."""

    jitter_s: float = 0.0
    """Messages of different subjects overtake each other by up to this much."""
    answers_lost: float = 0.0
    """Something is stored and its writer never hears of it."""
    refused: float = 0.0
    """Something is not stored, and the writer is told so."""
    doubled: float = 0.0
    """A plain message comes twice, a request is handled twice."""
    undecided: float = 0.0
    """The servers agree on something only later, or drop it; until then they take nothing else on its subject."""


class Gate:
    """Open while its process runs; a frozen process gets no further than its next wait (as by SIGSTOP)."""

    def __init__(self) -> None:
        """Open."""
        self.waits = 0
        """Waits for the outside that were passed so far."""
        self.stood = 0
        """How often it stood still at one."""
        self.tripped = asyncio.Event()
        """Set when the wait was reached at which the process should end."""
        self.at_wait: Callable[[], bool] | None = None
        """Asked at each wait whether the process dies there; see `World.doom`."""
        self._last_wait = 0
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        """True while the process runs."""
        return self._open.is_set()

    def freeze(self) -> None:
        """The process stands still; time does not."""
        self._open.clear()

    def thaw(self) -> None:
        """It goes on where it stood."""
        self._open.set()

    def trip_after(self, waits: int) -> None:
        """Stand still for ever at so many waits from now, so that somebody may end the process exactly there."""
        self._last_wait = self.waits + waits

    async def passed(self) -> None:
        """Wait while the process is frozen."""
        self.waits += 1
        if self.waits == self._last_wait:
            self.freeze()
            self.tripped.set()
        if self.at_wait is not None and self.at_wait():
            self.freeze()
        if not self._open.is_set():
            self.stood += 1
            await self._open.wait()


class MemoryConnection:
    """Whether and how the process reaches the server now."""

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        rates: Rates | None = None,
        draw: Random | None = None,
        note: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Connected, at once; `note` hears of what goes wrong and makes a difference (see `struck`)."""
        self.note = note
        self.gate = gate or Gate()
        self.rates = rates or Rates()
        self.draw = draw or Random(0)
        self.up = asyncio.Event()
        self.up.set()
        self.flowing = asyncio.Event()
        """Cleared while everything sent is swallowed and nobody notices, as behind a dead router."""
        self.flowing.set()
        self.delay_s = 0.0
        """How much later than usual everything arrives."""
        self.slow_s = 0.0
        """How long the process takes for each message of a stream that it reads."""
        self.stores_refuse = False
        """Nothing that the process wants stored is stored, while all else works."""
        self.generation = 1

    @property
    def is_connected(self) -> bool:
        """True while the server answers, or seems to."""
        return self.up.is_set()

    @property
    def is_reached(self) -> bool:
        """True while messages from the server come in."""
        return self.up.is_set() and self.flowing.is_set()

    def check(self) -> None:
        """Memory never fails for good."""

    async def wait_connected(self) -> None:
        """Wait for the server."""
        await self.up.wait()

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Nobody is called: the memory bus has no half-open connections."""
        return lambda: None

    async def flush(self) -> None:
        """Everything sent has arrived already."""

    def cut(self) -> None:
        """Lose the connection."""
        self.up.clear()

    def swallow(self) -> None:
        """Lose it without being told."""
        self.flowing.clear()

    def heal(self) -> None:
        """Get it back."""
        self.generation += 1
        self.delay_s = self.slow_s = 0.0
        self.stores_refuse = False
        self.up.set()
        self.flowing.set()

    def happens(self, share: float) -> bool:
        """Whether something that happens so often happens now."""
        return share > 0 and self.draw.random() < share

    async def way(self, sleep_s: float) -> None:
        """One way between process and server.

        Raises:
            TemporaryError: it is cut.
        """
        if not self.is_connected:
            self.note("cut off")
            raise TemporaryError("the bus is away")
        late_s = self.draw.random() * self.rates.jitter_s if self.rates.jitter_s else 0.0
        if self.delay_s or late_s:
            self.note("late")
        await pause(sleep_s + self.delay_s + late_s)
        if not self.flowing.is_set():
            self.note("swallowed")
            await self.flowing.wait()
        await self.gate.passed()
        if not self.is_connected:
            raise TemporaryError("the bus went away")

    def check_stores(self) -> None:
        """The server may not store anything now.

        Raises:
            TemporaryError: it does not.
        """
        if self.stores_refuse or self.happens(self.rates.refused):
            self.note("refused")
            raise TemporaryError("the stream has no leader", retry_after_s=REFUSED_RETRY_S)

    async def check_answer(self, timeout_s: float) -> None:
        """What was stored is told, or not.

        Raises:
            OutcomeUnknownError: not.
        """
        if self.happens(self.rates.answers_lost):
            self.note("unanswered")
            await asyncio.sleep(timeout_s)
            await self.gate.passed()
            raise OutcomeUnknownError("no answer in time")
