"""Several placement schedulers on one cluster, each with a view that is fresh in parts (ParSync).

The master knows which slots are free. Each scheduler decides on its own copy and commits by compare-and-set: a commit
names the version of the slot that was seen, and a slot that changed since is refused (a conflict, to be tried again).
Slots are divided into as many partitions as a period has turns. With partitioned synchronisation a scheduler refreshes
one partition per turn, another one than its neighbours, so that at any moment different schedulers have different fresh
partitions; with full synchronisation it refreshes everything once per period.

Source: Feng et al., "Scaling Large Production Clusters with Partitioned Synchronization", USENIX ATC 2021, sections 4
and 5: quality-first takes the best slot and prefers fresh ones among equals, latency-first takes the freshest partition
first, and adaptive turns from the one to the other when scheduling delay grows.
"""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
SMOOTHING_PERCENT = 25
"""How much the last delay counts in the smoothed one."""
AGE_MAX = 1 << 12
SPREAD = 2_654_435_761
"""An odd number that sends neighbouring schedulers to different ones of equal slots."""


class Preference(StrEnum):
    """What a scheduler looks at first."""

    QUALITY = "quality-first"
    LATENCY = "latency-first"
    ADAPTIVE = "adaptive"


class Commit(Struct, frozen=True):
    """One task on one slot, as its scheduler saw it."""

    scheduler: int
    slot: int
    version: int


class Master:
    """The truth about slots."""

    def __init__(self, slots: int, partitions: int) -> None:
        """All slots are free; slot k lies in partition k modulo `partitions`."""
        self.free: Flags = np.ones(slots, dtype=np.bool_)
        self.version: Ints = np.zeros(slots, dtype=np.int64)
        self.partition: Ints = np.arange(slots, dtype=np.int64) % partitions
        self.partitions = partitions

    def commit(self, wanted: Commit) -> bool:
        """Take the slot if nothing happened to it since; False is a conflict."""
        if not self.free[wanted.slot] or self.version[wanted.slot] != wanted.version:
            return False
        self.free[wanted.slot] = False
        self.version[wanted.slot] += 1
        return True

    def release(self, slots: Sequence[int]) -> None:
        """Tasks on these slots ended."""
        self.free[list(slots)] = True
        self.version[list(slots)] += 1


class Scheduler:
    """One scheduler's view, and how it chooses."""

    def __init__(self, number: int, master: Master, preference: Preference, *, delay_limit: int) -> None:
        """A scheduler that just saw everything; adaptive ones turn at a smoothed delay of so many turns."""
        self.number = number
        self.preference = preference
        self.delay_limit = delay_limit
        self.delay_percent = 0
        """Smoothed scheduling delay, in hundredths of a turn."""
        self._free = master.free.copy()
        self._version = master.version.copy()
        self._partition = master.partition
        self._seen = np.zeros(master.partitions, dtype=np.int64)
        slots = np.arange(len(master.free), dtype=np.int64)
        self._order = (slots + 1) * (SPREAD * (2 * number + 1) % (1 << 31)) % (1 << 20)

    def turn_of(self, turn: int) -> int:
        """The partition that is refreshed in this turn."""
        return (self.number + turn) % len(self._seen)

    def refresh(self, master: Master, partitions: Sequence[int], turn: int) -> None:
        """See these partitions as they are."""
        fresh = np.isin(self._partition, partitions)
        self._free[fresh] = master.free[fresh]
        self._version[fresh] = master.version[fresh]
        self._seen[list(partitions)] = turn

    def note_delay(self, turns: int) -> None:
        """A task was placed after waiting for so many turns."""
        self.delay_percent += (100 * turns - self.delay_percent) * SMOOTHING_PERCENT // 100

    @property
    def looks_at_quality(self) -> bool:
        """True when quality counts more than freshness now."""
        if self.preference is Preference.ADAPTIVE:
            return self.delay_percent <= 100 * self.delay_limit
        return self.preference is Preference.QUALITY

    def choose(self, quality: Ints, count: int, turn: int) -> list[Commit]:
        """Slots for so many tasks, as far as this view has free ones; they are taken in the view at once."""
        free = np.flatnonzero(self._free)
        age = np.minimum(turn - self._seen[self._partition[free]], AGE_MAX)
        first, second = (-quality[free], age) if self.looks_at_quality else (age, -quality[free])
        best = free[np.lexsort((free, self._order[free], second, first))[:count]]
        self._free[best] = False
        return [Commit(scheduler=self.number, slot=int(slot), version=int(self._version[slot])) for slot in best]
