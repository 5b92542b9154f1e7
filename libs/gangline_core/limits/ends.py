"""When will there be room below a limit again? What holders use through time, as one round sees it.

The same as `releases` is for the room of nodes: live jobs give back what they count when they are expected to end, and
so do those that this round started. Of ends that nobody knows the oldest job's comes first.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from itertools import chain

import numpy as np
from msgspec import Struct

from gangline_core.foresight.forecast import held_by
from gangline_core.groups import holders, user_of
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.amounts import amount_of
from gangline_core.limits.quota import JOBS, NO_END, Ledger
from gangline_core.limits.rungs import Reserve, Rung, kept_idle, lowered
from gangline_core.making_room.live_index import Lasting
from gangline_core.reserving.releases import UNKNOWN_MS, expected_end_ms
from gangline_core.scoring.columns import Ints
from gangline_core.state import State

NOBODY = JobId(0)


class Ending(Struct, gc=False):
    """What one job gives back below a holder, and when."""

    end_ms: int
    due_ms: int
    """When it should have ended; before now where it is late."""
    since_ms: int
    job: JobId
    group: str
    amounts: Mapping[str, int]


class Bound(Struct, frozen=True):
    """One limit that a job must keep: of a dimension, below a holder."""

    rung: Rung
    dimension: str
    needed: int
    reserve: Reserve | None = None
    """What others keep to themselves, where that is the limit."""


class Headroom(Struct, frozen=True):
    """What is left below one limit after each of these ends, the first entry being now."""

    ends_ms: list[int]
    left: list[int]
    jobs: list[JobId]
    """Whose end each entry is, the first being nobody's."""
    dues_ms: list[int]
    """When each should have come."""

    def when(self, needed: int) -> int | None:
        """The place of the first entry at which so much is left; None when it never is."""
        return next((k for k, left in enumerate(self.left) if left >= needed), None)

    def at(self, time_ms: int, place: int, gone: Collection[JobId] = ()) -> int:
        """What is left at a time; of ends that nobody knows those up to `place` count, and those of `gone`."""
        if time_ms < UNKNOWN_MS:
            return self.left[bisect_right(self.ends_ms, time_ms) - 1]
        first = max(place, bisect_right(self.ends_ms, UNKNOWN_MS - 1) - 1)
        found = self.left[first]
        if found >= NO_END:
            return found
        later = range(first + 1, len(self.left)) if gone else ()
        return found + sum(self.left[k] - self.left[k - 1] for k in later if self.jobs[k] in gone)


def left_now(ledger: Ledger, bound: Bound) -> int:
    """What is left below a limit at the moment."""
    used = ledger.used_apart(bound.rung.holder, bound.dimension)
    if bound.reserve is None:
        return bound.rung.limit[bound.dimension] - used
    owned = {owner: ledger.used_apart(owner, bound.dimension) for owner, _ in bound.reserve.unlent}
    return _left(bound.reserve, used, owned)


class LimitEnds:
    """Usage through time, holder by holder."""

    def __init__(self, state: State, ledger: Ledger, now: int) -> None:
        """What runs now and what `add` tells gives back; `ledger` says what is used at the moment."""
        self._state, self._ledger, self._now = state, ledger, now
        self._endings: dict[str, list[Ending]] = {}
        """What the round gave, by holder."""
        self._live: dict[tuple[str, bool], list[Ending]] = {}
        """What live jobs hold, by holder and whether the jobs themselves count, as far as somebody asked."""
        self._by_job: dict[JobId, Ending] = {}
        self._known: dict[tuple[str, str, Reserve | None], tuple[int, Headroom]] = {}
        self._changes = 0

    def add(self, job: Job, amounts: Mapping[str, int], *, end_ms: int) -> None:
        """This round gave the job so much, until then; the ledger counts it already."""
        self._changes += 1
        ending = Ending(max(end_ms, self._now), end_ms, self._now, job.id, job.spec.group, lowered(amounts))
        for holder in holders(job.spec.group, job.spec.user):
            self._endings.setdefault(holder, []).append(ending)

    def drop(self, job: Job, amounts: Mapping[str, int]) -> None:
        """What `add` told last of this job and these amounts is not so after all."""
        self._changes += 1
        folded = lowered(amounts)
        for holder in holders(job.spec.group, job.spec.user):
            told = self._endings[holder]
            place = max(k for k, one in enumerate(told) if one.job == job.id and one.amounts == folded)
            del told[place]

    def headroom(self, bound: Bound) -> Headroom:
        """What is left below a limit through time."""
        key = (bound.rung.holder, bound.dimension, bound.reserve)
        known = self._known.get(key)
        if known is None or known[0] != self._changes:
            found = self._of_limit(bound) if bound.reserve is None else self._beside_owners(bound, bound.reserve)
            known = self._known[key] = (self._changes, found)
        return known[1]

    # --- inside -----------------------------------------------------------------------------------------

    def _live_below(self, holder: str, *, is_counted: bool) -> list[Ending]:
        """What live jobs below a holder give back; those that hold nothing only where jobs themselves are counted."""
        known = self._live.get((holder, is_counted))
        if known is not None:
            return known
        found = self._live[holder, is_counted] = []
        index, user = self._state.live_index, user_of(holder)[1]
        for pool, groups in index.groups.items():
            below = index.groups_below(pool, holder)
            own = (groups.get(group, ()) if is_counted else index.who_hold(pool, group) for group in below)
            for job_id in chain.from_iterable(own):
                job = self._state.kept.jobs[job_id]
                if not user or job.spec.user == user:
                    found.append(self._ending(job))
        return found

    def _ending(self, job: Job) -> Ending:
        known = self._by_job.get(job.id)
        if known is None:
            lasting, since_ms = self._lasting(job), job.started_ms or self._now
            end_ms = max(self._now, lasting.end_ms)
            ending = Ending(end_ms, lasting.end_ms, since_ms, job.id, job.spec.group, lasting.amounts)
            known = self._by_job[job.id] = ending
        return known

    def _lasting(self, job: Job) -> Lasting:
        """When it gives back what it holds; worked out again only when it or a task of it is another than before."""
        tasks, index = self._state.tasks_of(job), self._state.live_index
        known = index.lasting.get(job.id)
        if known is None or known.job is not job or known.tasks != tasks:
            end_ms = max((expected_end_ms(task, job) for task in tasks), default=0)
            known = index.lasting[job.id] = Lasting(job, tasks, end_ms, held_by(self._state, job).folded)
        return known

    def _in_order(self, bound: Bound) -> tuple[list[Ending], Ints]:
        """Who gives any of the dimension back, first to last, and how much."""
        is_counted = bound.dimension == JOBS
        own = [*self._live_below(bound.rung.holder, is_counted=is_counted), *self._endings.get(bound.rung.holder, ())]
        found = [(ending, amount) for ending in own if (amount := amount_of(ending.amounts, bound.dimension))]
        found.sort(key=lambda entry: (entry[0].end_ms, entry[0].since_ms, entry[0].job))
        return [ending for ending, _ in found], np.array([amount for _, amount in found], dtype=np.int64)

    def _of_limit(self, bound: Bound) -> Headroom:
        used = self._ledger.used_apart(bound.rung.holder, bound.dimension)
        endings, amounts = self._in_order(bound)
        left = bound.rung.limit[bound.dimension] - used
        return Headroom(
            ends_ms=[self._now, *(ending.end_ms for ending in endings)],
            left=[left, *(left + np.cumsum(amounts)).tolist()],
            jobs=[NOBODY, *(ending.job for ending in endings)],
            dues_ms=[self._now, *(ending.due_ms for ending in endings)],
        )

    def _beside_owners(self, bound: Bound, reserve: Reserve) -> Headroom:
        """As owners' own work ends, they keep as much more to themselves."""
        used = self._ledger.used_apart(bound.rung.holder, bound.dimension)
        owned = {owner: self._ledger.used_apart(owner, bound.dimension) for owner, _ in reserve.unlent}
        ends_ms, left, jobs, dues_ms = [self._now], [_left(reserve, used, owned)], [NOBODY], [self._now]
        for ending, amount in zip(*self._in_order(bound), strict=True):
            used -= int(amount)
            for owner in owned:
                if ending.group == owner or ending.group.startswith(f"{owner}/"):
                    owned[owner] -= int(amount)
            ends_ms.append(ending.end_ms)
            dues_ms.append(ending.due_ms)
            jobs.append(ending.job)
            left.append(_left(reserve, used, owned))
        return Headroom(ends_ms=ends_ms, left=left, jobs=jobs, dues_ms=dues_ms)


def _left(reserve: Reserve, used: int, owned: Mapping[str, int]) -> int:
    kept = kept_idle(reserve.unlent, owned)
    return reserve.capacity - kept - used if kept else NO_END
