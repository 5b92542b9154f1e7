"""What has to be looked at, and from when on: several things beside each other, each by one hand at a time."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

from gangline_kit.clock import Clock
from gangline_kit.tasks import Tasks

Key = TypeVar("Key", bound=Hashable)


class Due(Generic[Key]):
    """Looks at each thing when it is due; what is due again meanwhile is looked at afterwards."""

    def __init__(
        self, clock: Clock, look: Callable[[Key], Awaitable[None]], *, name: str, tick_s: float, most: int | None = None
    ) -> None:
        """`look` must not raise; at most so many looks go on at a time. Nothing is looked at before `work_for_ever`."""
        self._clock, self._look, self._name, self._tick_s, self._most = clock, look, name, tick_s, most
        self._at_s: dict[Key, float] = {}
        self._busy: dict[Key, None] = {}
        self._work = Tasks()

    def now(self, key: Key) -> None:
        """Look at it now, whatever it waits for."""
        self._at_s[key] = 0.0

    def soon(self, *keys: Key) -> None:
        """Look at them now, but for those that are to be looked at later: that stays so."""
        for key in keys:
            self._at_s.setdefault(key, 0.0)

    def hasten(self, keys: Iterable[Key]) -> None:
        """Look now at those of them that are to be looked at later."""
        for key in keys:
            if key in self._at_s:
                self._at_s[key] = 0.0

    def after(self, key: Key, pause_s: float) -> None:
        """Look at it after a pause."""
        self._at_s[key] = self._clock.monotonic_s() + pause_s

    def at(self, key: Key, at_s: float) -> None:
        """Look at it from this time of the steady clock on."""
        self._at_s[key] = at_s

    async def work_for_ever(self) -> None:
        """Look at everything that is due."""
        try:
            while True:
                await self._clock.sleep(self._tick_s)
                now_s = self._clock.monotonic_s()
                for key in [key for key, at_s in self._at_s.items() if at_s <= now_s and key not in self._busy]:
                    if len(self._busy) == self._most:
                        break
                    del self._at_s[key]
                    self._busy[key] = None
                    self._work.spawn(self._one(key), name=f"{self._name} {key}")
        finally:
            await self._work.close()

    async def _one(self, key: Key) -> None:
        try:
            await self._look(key)
        finally:
            del self._busy[key]
