"""What may go wrong between one process and the server: cut, swallowed, late, or the whole process stands still."""

import asyncio
from collections.abc import Callable

from gangline_kit.errors import TemporaryError


class Gate:
    """Open while its process runs; a frozen process gets no further than its next wait (as by SIGSTOP)."""

    def __init__(self) -> None:
        """Open."""
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

    async def passed(self) -> None:
        """Wait while the process is frozen."""
        await self._open.wait()


class MemoryConnection:
    """Whether and how the process reaches the server now."""

    def __init__(self, gate: Gate | None = None) -> None:
        """Connected, at once."""
        self.gate = gate or Gate()
        self.up = asyncio.Event()
        self.up.set()
        self.flowing = asyncio.Event()
        """Cleared while everything sent is swallowed and nobody notices, as behind a dead router."""
        self.flowing.set()
        self.delay_s = 0.0
        """How much later than usual everything arrives."""
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

    def cut(self) -> None:
        """Lose the connection."""
        self.up.clear()

    def swallow(self) -> None:
        """Lose it without being told."""
        self.flowing.clear()

    def heal(self) -> None:
        """Get it back."""
        self.generation += 1
        self.up.set()
        self.flowing.set()

    async def way(self, sleep_s: float) -> None:
        """One way between process and server.

        Raises:
            TemporaryError: it is cut.
        """
        if not self.is_connected:
            raise TemporaryError("the bus is away")
        await asyncio.sleep(sleep_s + self.delay_s)
        await self.flowing.wait()
        await self.gate.passed()
        if not self.is_connected:
            raise TemporaryError("the bus went away")
