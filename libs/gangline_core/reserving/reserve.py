"""Dated room for the first job in order that cannot start, and who may pass it.

A job may pass (backfill) when its time limit ends before the reservation begins, when it leaves the reservation's room
alone, or when the reserved job may push it away again: an opportunistic job, or one that runs on borrowed quota which
the reserved job's group is owed. Where nobody knows when room comes back, a day from now stands for it, so that short
jobs pass and endless ones do not; the date moves forward as soon as more is known.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from gangline_core.facts import Reservation, TaskPlacement
from gangline_core.ids import TaskId
from gangline_core.job import Job, TaskState
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.models import acceptable
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.reserving.closures import Closures
from gangline_core.reserving.releases import UNKNOWN_MS, Releases
from gangline_core.room.capacity import Flags, Ints, Layout, Room
from gangline_core.spec import GPU_MILLI, ServiceClass, may_take
from gangline_core.table import Table

Planned = tuple[int, int, Seats, Room]
"""The time at which a gang fits, the date to tell, its seats, and the room then."""
RESERVATIONS_MAX = 4
"""Reservations of one round; each further one is for a job that no other reserved job competes with."""
LIMITED_MAX = 16
"""Dates below limits that one of room minds."""
OVERDUE_MS = 60_000
"""What should have ended already is given so long to do so."""
UNKNOWN_RUN_MS = 86_400_000
"""A reservation that depends on ends nobody knows begins a day from now."""


class Reserver:
    """Makes the reservations of one round."""

    def __init__(self, table: Table) -> None:
        """No reservation yet."""
        self._table = table
        self._releases: dict[frozenset[TaskId], Releases] = {}
        """By which tasks are pushed away."""
        self._loose: frozenset[TaskId] | None = None
        """What may be pushed away at any time, once somebody asked."""
        self._booked: list[tuple[tuple[TaskPlacement, ...], int]] = []
        """What reserved jobs take from further dates, and until when."""
        self._seen = (0, 0)
        """How many tasks this round had placed, and claims it held, when the releases were last brought up to date."""
        self._beside = 0
        """How many reservations of others are booked, for a job that comes after them."""
        self._taken: Flags | None = None
        """Nodes that some reserved job could use."""
        self.is_over = False
        """True when those are all nodes, so that every further job competes with one of them and has no date."""

    def consider(self, job: Job) -> Reservation | None:
        """Reserve room for a refused job, unless it competes with a job that has a reservation already."""
        table = self._table
        depth = table.policy.backfill_depth
        if (
            self.is_over
            or depth == 0
            or len(table.reservations) >= max(RESERVATIONS_MAX, depth)
            or job.spec.service_class == ServiceClass.OPPORTUNISTIC
        ):
            return None
        gang = table.seating.least(job).gang
        wanted = usable_nodes(table.room, gang)
        competes = self._taken is not None and bool((self._taken & wanted).any())
        if not wanted.any() or (competes and len(table.reservations) >= depth):
            return None
        going = self._pushed_by(job, gang)
        planned = self._plan_after_limits(job, gang, self._up_to_date(going))
        if planned is None:
            return None
        until_ms, start_ms, seats, later = planned
        reservation = Reservation(job=job.id, start_ms=start_ms, tasks=seats.tasks)
        table.promised.add(table.reserve(reservation, later, wanted), later, until_ms, going)
        self._taken = wanted if self._taken is None else self._taken | wanted
        self.is_over = bool(self._taken.all()) and len(table.reservations) >= depth
        if depth > 1:
            # Conservative: further dates count on this job having begun, and on its room again when it ends.
            length_ms = table.run_ms(job)
            self._book(seats.tasks, UNKNOWN_MS if length_ms is None else start_ms + length_ms)
        return reservation

    def planned(self, job: Job, *, beside: Sequence[Reservation]) -> tuple[Reservation, Room] | None:
        """When and where a job would start that comes after these reservations, and the room then; nothing is kept."""
        table = self._table
        for other in beside[self._beside :]:
            length_ms = table.run_ms(table.state.kept.jobs[other.job])
            self._book(other.tasks, UNKNOWN_MS if length_ms is None else other.start_ms + length_ms)
        self._beside = len(beside)
        found = self._plan(job, table.seating.least(job).gang, self._up_to_date(frozenset()))
        if found is None:
            return None
        _, start_ms, seats, later = found
        return Reservation(job=job.id, start_ms=start_ms, tasks=seats.tasks), later

    def _book(self, tasks: tuple[TaskPlacement, ...], end_ms: int) -> None:
        """A reserved job takes this from later dates."""
        self._booked.append((tasks, end_ms))
        for releases in self._releases.values():
            releases.book(tasks, end_ms)

    def _pushed_by(self, job: Job, gang: Gang) -> frozenset[TaskId]:
        """Opportunistic tasks that the job pushes away when its time comes, so that it need not wait for their ends.

        Nobody, where their room alone would do for it now: then something else keeps it from pushing them away.
        """
        table = self._table
        if self._loose is None:
            self._loose = frozenset(loose_tasks(table)) if table.policy.preemption else frozenset()
        if not self._loose or not may_take(job.spec):
            return frozenset()
        fits = table.seating.placer(self._up_to_date(self._loose).at(table.now), gang) is not None
        return frozenset() if fits else self._loose

    def _up_to_date(self, going: frozenset[TaskId]) -> Releases:
        """What comes back when, also from jobs that started since the last date was worked out."""
        table = self._table
        placed, held = self._seen
        if len(table.held) != held:
            self._releases.clear()
        for releases in self._releases.values():
            releases.take(table.placed[placed:])
        self._seen = (len(table.placed), len(table.held))
        if going not in self._releases:
            releases = self._releases[going] = table.releases(going)
            for tasks, end_ms in self._booked:
                releases.book(tasks, end_ms)
        return self._releases[going]

    def _plan_after_limits(self, job: Job, gang: Gang, releases: Releases) -> Planned | None:
        """The plan beside those that come before it and have a date below a limit by then: they start first.

        Nothing of the room is kept for those. Who starts before their dates does not mind them, nor is one minded of
        whose run nobody knows the length: others would pass for a day, though it may not start.
        """
        table, planned = self._table, self._plan(job, gang, releases)
        reserved = {one.job for one in table.reservations}
        dates = [date for date in table.limit_dates[:LIMITED_MAX] if date.job not in reserved and date.job != job.id]
        for date in sorted(dates, key=lambda date: (date.start_ms, date.job)):
            if planned is None or not date.start_ms <= planned[0] < UNKNOWN_MS:
                break
            other = table.state.kept.jobs[date.job]
            length_ms = table.run_ms(other)
            seats = table.seating.placer(releases.at(date.start_ms), table.seating.least(other).gang)
            if seats is not None and length_ms is not None:
                releases = releases.beside(seats.tasks, date.start_ms + length_ms)
                planned = self._plan(job, gang, releases)
        return planned

    def _plan(self, job: Job, gang: Gang, releases: Releases) -> Planned | None:
        """When and where the gang fits, on nodes that are not closed to it then; None when it never does.

        A node that a window closes at one date is not thought of for later ones either.
        """
        while (planned := self._earliest(job, gang, releases)) is not None:
            time, start_ms, seats, _ = planned
            closed = Closures(self._table.state, start_ms).nodes(job.spec) if time != UNKNOWN_MS else ()
            if {place.node for place in seats.tasks}.isdisjoint(closed):
                break
            gang = replace(gang, excluded=(*gang.excluded, *closed))
        return planned

    def _earliest(self, job: Job, gang: Gang, releases: Releases) -> Planned | None:
        """The earliest time at which there is room for the gang, whatever windows close; None when there never is."""
        times, wanted = releases.times(), usable_nodes(self._table.room, gang)
        before = next((known for known in self._table.pool.reservations if known.job == job.id), None)
        low, high = releases.soonest(gang, wanted), len(times) - 1
        best: tuple[int, Seats, Room] | None = None
        # The last round's date mostly still holds, and one look just before it proves that. Else it is mostly the first
        # date at which there are enough GPUs.
        likely = low if before is None else _place_of(before.start_ms, times, otherwise=low)
        probes = [likely, likely - 1]
        while low <= high:
            probe = probes.pop(0) if probes else (low + high) // 2
            if not low <= probe <= high:
                continue
            time = times.item(probe)
            later = releases.at(time)
            seats = self._table.seating.placer(later, gang)
            if seats is None:
                low = probe + 1
            else:
                best, high = (time, seats, later), probe - 1
        if best is None:
            return None
        time, seats, later = best
        return time, self._dated(time, before), self._apart_from_shares(later, gang) or seats, later

    def _apart_from_shares(self, later: Room, gang: Gang) -> Seats | None:
        """Seats at the same time that leave cards which are shared now to further shares; None when there are none."""
        milli = self._table.room.milli
        shared = (milli > 0) & (milli < GPU_MILLI)
        if not shared.any() or any(need.is_share for need in gang.needs):
            return None
        apart = later.copy()
        apart.milli[shared] = 0
        apart.count_all()
        return self._table.seating.placer(apart, gang)

    def _dated(self, time: int, before: Reservation | None) -> int:
        now = self._table.now
        if now < time < UNKNOWN_MS:
            return time
        if before is not None and before.start_ms > now:
            return before.start_ms
        # What is late by an hour is as likely to take another hour as to end at once.
        return now + (UNKNOWN_RUN_MS if time == UNKNOWN_MS else max(OVERDUE_MS, now - time))


def loose_tasks(table: Table) -> Iterator[TaskId]:
    """Opportunistic tasks of the pool that whoever is not opportunistic may push away at any time."""
    state, pool = table.state, table.pool.pool.name
    for sort, alike in state.live_sorts.get(pool, {}).items():
        if sort.service_class == ServiceClass.OPPORTUNISTIC and sort.preemptible:
            for job in (state.kept.jobs[name] for name in alike):
                if not job.spec.protected_s:
                    yield from (task.id for task in state.tasks_of(job) if task.state != TaskState.LOST)


def _place_of(time: int, times: Ints, *, otherwise: int) -> int:
    """Where a time stands among these, which ascend."""
    place = int(np.searchsorted(times, time))
    return place if place < len(times) and times.item(place) == time else otherwise


def usable_nodes(room: Room, gang: Gang) -> Flags:
    """Nodes of which the gang could use anything."""
    layout = room.layout
    models = tuple(need.accepts for need in gang.needs)
    asked = ("usable", gang.where, models)
    return layout.remember(asked, lambda: _usable_nodes(layout, gang))


def _usable_nodes(layout: Layout, gang: Gang) -> Flags:
    mask = gang.mask(layout)
    if any(not need.wants_gpu for need in gang.needs):
        return mask
    kinds = {number for need in gang.needs for own in acceptable(layout, need).values() for number in own}
    return mask & layout.has_kind(tuple(sorted(kinds)))


def reserved_reason(table: Table) -> Reason:
    """Why a job that would fit may not pass."""
    first = min((*table.reservations, *table.loose), key=lambda reservation: (reservation.start_ms, reservation.job))
    numbers: dict[str, int | str] = {
        "job": first.job,
        "from_ms": first.start_ms,
        "fits_s": max(0, first.start_ms - table.now) // 1000 if table.policy.backfill else 0,
    }
    return Reason(ReasonCode.RESERVED, numbers)
