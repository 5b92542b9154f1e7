"""Live jobs of a pool by the service that they had, kept from decision to decision.

Where a job stands changes when it sinks into its next queue, which is foreseen, and when it or a task of it is another
than before, which the fold tells (`stale`). All others stand where they stood.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from gangline_core.ids import JobId


class Standing(NamedTuple):
    """Where a live job stands; these sort from those that go on first to those that make way first."""

    place: tuple[int, int]
    """Its queue in half steps, then its age."""
    band: int
    """Of its queue level."""
    job: JobId
    milli: int
    """Thousandths of GPUs that its tasks hold."""


class ServiceIndex:
    """Those of one pool, under one set of rules."""

    def __init__(self, rules: Hashable, live: Iterable[JobId]) -> None:
        """These live, and nobody knows yet where they stand."""
        self.rules = rules
        self.now = 0
        """At what time it was last brought up to date, in ms."""
        self.stale = set(live)
        """Jobs that are others than they were then."""
        self.standing: list[Standing] = []
        """Those who may be evicted, in order."""
        self._known: dict[JobId, Standing] = {}
        self._sinks_ms: dict[JobId, int] = {}
        self._next: list[tuple[int, JobId]] = []
        """Who sinks when, as a heap; those that were looked at again since are still there."""

    def put(self, job: JobId, standing: Standing | None, sinks_ms: int | None) -> None:
        """Where a job stands that may be evicted, and when it sinks if it does."""
        if standing is not None:
            self._known[job] = standing
            insort(self.standing, standing)
        if sinks_ms is not None:
            self._sinks_ms[job] = sinks_ms
            heappush(self._next, (sinks_ms, job))

    def drop(self, job: JobId) -> None:
        """It stands nowhere."""
        self._sinks_ms.pop(job, None)
        standing = self._known.pop(job, None)
        if standing is not None:
            del self.standing[bisect_left(self.standing, standing)]

    def changed(self, now: int) -> set[JobId]:
        """Who has to be looked at again: those that are others, or sank."""
        changed, self.stale, self.now = self.stale, set(), now
        while (next_ms := self.next_ms()) is not None and next_ms <= now:
            _, job = heappop(self._next)
            changed.add(job)
        return changed

    def next_ms(self) -> int | None:
        """When somebody sinks next; None when nobody does."""
        while self._next and self._sinks_ms.get(self._next[0][1]) != self._next[0][0]:
            heappop(self._next)
        return self._next[0][0] if self._next else None
