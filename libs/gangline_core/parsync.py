"""Several placement schedulers on one pool, each with a view that is fresh in parts (ParSync).

A round is opened as ever: who may start, in which order. Then every scheduler places its own share of the candidates on
its own view of the nodes, all at the same time, and appends what it placed. The fold commits by compare-and-set: a gang
whose nodes are still what its scheduler saw is booked, any other is a conflict and changes nothing. At last the leader
decides the round on the whole state: conflicts, who makes way, reservations, growth, and every reason.

Nodes are divided into partitions. With each opened round a scheduler synchronises one partition, another one than its
neighbours, so that different schedulers have different fresh ones; or, for comparison, all of them once per period.

Source: Feng et al., "Scaling Large Production Clusters with Partitioned Synchronization", USENIX ATC 2021, sections 4
and 5: quality-first takes the best place and prefers fresh ones among equals, latency-first looks at the freshest
partitions first, and adaptive turns from the one to the other when scheduling delay grows.
"""

from collections.abc import Iterable
from enum import StrEnum
from zlib import crc32

import numpy as np

from gangline_core.aged_part import AgedPart
from gangline_core.cluster import Policy
from gangline_core.facts import ShareDecided, TaskPlacement
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState
from gangline_core.kept import PoolState
from gangline_core.limits.dates import LimitDates
from gangline_core.making_room.claims import honour_claims
from gangline_core.making_room.shields import with_marks
from gangline_core.pauses.resuming import honour_paused
from gangline_core.reasons import Reason
from gangline_core.repairing import repair
from gangline_core.room.capacity import Flags, Room
from gangline_core.room.seen import SchedulerState
from gangline_core.seating import Found, find_seats
from gangline_core.spec import ServiceClass
from gangline_core.state import State
from gangline_core.table import Table

SMOOTHING_PERCENT = 25
"""How much the last gang's delay counts in the smoothed one."""


class Preference(StrEnum):
    """What a scheduler looks at first."""

    QUALITY = "quality-first"
    LATENCY = "latency-first"
    ADAPTIVE = "adaptive"


class Sync(StrEnum):
    """What a scheduler synchronises when."""

    PARTITIONED = "partitioned"
    """One partition with each round, in rotation."""
    FULL = "full"
    """Everything once per period, which has as many rounds as there are partitions."""


# --- views ----------------------------------------------------------------------------------------------------


def schedulers_of(policy: Policy) -> int:
    """How many schedulers decide shares; 0 where the leader decides alone."""
    return policy.schedulers if policy.schedulers > 1 else 0


def partition_of(node: NodeId, partitions: int) -> int:
    """The partition a node lies in: the same whoever joins or leaves."""
    return crc32(node.encode()) % partitions


def age_of(policy: Policy, number: int, *, partition: int, round_number: int) -> int:
    """How many rounds ago a scheduler synchronised a partition."""
    behind = partition if policy.scheduler_sync == Sync.PARTITIONED else 0
    return (number + round_number - behind) % policy.scheduler_partitions


def synchronise(pool: PoolState) -> None:
    """A round was just opened: every scheduler sees the nodes as they are whose turn it is."""
    policy, wanted = pool.policy, schedulers_of(pool.policy)
    for number in [number for number in pool.schedulers if number >= wanted]:
        del pool.schedulers[number]
    for number in range(wanted):
        view = pool.schedulers.setdefault(number, SchedulerState()).view
        ages = [
            age_of(policy, number, partition=part, round_number=pool.rounds)
            for part in range(policy.scheduler_partitions)
        ]
        for node in [node for node in view if not ages[partition_of(node, len(ages))]]:
            del view[node]


def view_of(state: State, pool: str, number: int) -> Room:
    """What is free as this scheduler sees it; where room is being cleared or kept for somebody it sees what is."""
    room, settled = state.room(pool).copy(), _settled(state, pool)
    for node, seen in state.kept.pools[pool].schedulers[number].view.items():
        if node in room.layout.row and node not in settled:
            room.refresh(state.kept.nodes[node], seen.use(len(state.use[node].gpu_milli)))
    return room


def _settled(state: State, pool: str) -> frozenset[NodeId]:
    """Nodes with claims, with what stops for them, or with paused tasks, whose room is given back in thought."""
    kept = state.kept
    claims = kept.claims.values()
    names = {*state.stopping_tasks, *(victim for claim in claims for victim in claim.victims)}
    names.update(task for job in state.paused.get(pool, {}) for task in kept.jobs[job].tasks)
    return frozenset(
        (
            *(place.node for claim in claims for place in claim.placement.tasks),
            *(kept.tasks[name].node for name in names if name in kept.tasks),
        )
    )


def looks_at_quality(policy: Policy, scheduler: SchedulerState) -> bool:
    """True when quality counts more than freshness now."""
    if policy.scheduler_preference == Preference.ADAPTIVE:
        return scheduler.delay_ms <= policy.scheduler_delay_s * 1000
    return policy.scheduler_preference == Preference.QUALITY


# --- shares ---------------------------------------------------------------------------------------------------


def share_of(job: Job, schedulers: int) -> int:
    """The scheduler that looks at a job; elements of one array go to one, since they share a cap."""
    return (job.array or job.id) % schedulers


def asked(state: State, pool: str) -> frozenset[int]:
    """The schedulers that have candidates in the open round."""
    known = state.kept.pools[pool]
    count = len(known.schedulers)
    if known.open_round is None or not count:
        return frozenset()
    jobs = (state.job(candidate.job) for candidate in known.open_round.opened.candidates)
    return frozenset(share_of(job, count) for job in jobs if job is not None)


def note_asked(state: State, pool: PoolState) -> None:
    """Remember who has candidates in the round that was just opened."""
    for number in sorted(asked(state, pool.pool.name)):
        scheduler = pool.schedulers[number]
        scheduler.asked_before, scheduler.asked = scheduler.asked, pool.rounds


def awaited(state: State, pool: str) -> bool:
    """True while a scheduler owes its share of the open round that answered when it was last asked."""
    known = state.kept.pools[pool]
    return any(
        scheduler.asked == known.rounds > scheduler.answered >= scheduler.asked_before
        for scheduler in known.schedulers.values()
    )


def decide_share(state: State, pool: str, number: int) -> ShareDecided | None:
    """What one scheduler places of the open round's candidates; None when none of them is its own.

    It stops at the first of its jobs that finds no room: whoever comes after that one may be in its way, which the
    leader judges. Jobs with rules that need the whole picture (claims, reservations, strict levels) are left to it too.
    """
    known = state.kept.pools[pool]
    opened = known.open_round
    if opened is None or number not in asked(state, pool):
        return None
    table = Table(state, pool, opened.at, frozen=view_of(state, pool, number))
    table.ports.take_turns(number, len(known.schedulers))
    honour_claims(table)
    repair(table)
    honour_paused(table, clears=False)
    before, spoken_for = len(table.placements), _spoken_for(table) | frozenset(opened.opened.limited)
    LimitDates(table, remembered=[date.job for date in table.pool.limit_dates])
    rooms, part = _Rooms(table, number), AgedPart(table)
    candidates = (state.job(candidate.job) for candidate in opened.opened.candidates)
    mine = (job for job in candidates if job is not None and share_of(job, len(known.schedulers)) == number)
    for job in mine:
        if table.is_full or part.is_over_for(job):
            break
        if job.state != JobState.WAITING or job.id in spoken_for or _is_strict(known.policy, job):
            continue
        found = rooms.find(job)
        if found is None:
            break
        if isinstance(found, Found):
            table.place(job, found.seats, found.amounts, guarded=False, backfilled=False)
            part.note(job)
            rooms.take(found.seats.tasks)
    placements = tuple(with_marks(table, opened.opened.candidates)[before:])
    return ShareDecided(
        pool=pool, round=opened.opened.round, scheduler=number, placements=placements, digest=state.kept.digest
    )


def _spoken_for(table: Table) -> frozenset[JobId]:
    """Jobs whose place is settled otherwise; the nodes of reservations are closed to all others.

    Claims that no longer hold are the leader's to drop: until then their room is spoken for, too.
    """
    for job in table.claims_dropped:
        for place in table.state.kept.claims[job].placement.tasks:
            table.room.take(place)
    jobs, loose = table.state.kept.jobs, ServiceClass.OPPORTUNISTIC
    # What is reserved for opportunistic jobs binds no others, and those are left to the leader then.
    reservations = [kept for kept in table.pool.reservations if jobs[kept.job].spec.service_class != loose]
    rows = np.zeros(len(table.frozen.nodes), dtype=np.bool_)
    row = table.frozen.layout.row
    rows[[row[place.node] for kept in reservations for place in kept.tasks if place.node in row]] = True
    if rows.any():
        table.room.close(rows)
    started = [placement.job for placement in table.placements]
    if len(reservations) < len(table.pool.reservations):
        waiting = table.state.waiting.get(table.pool.pool.name, {})
        started += [job for job in waiting if jobs[job].spec.service_class == loose]
    return frozenset((*table.state.kept.claims, *(kept.job for kept in reservations), *started))


def _is_strict(policy: Policy, job: Job) -> bool:
    rule = policy.levels.get(job.spec.level)
    return rule is not None and rule.strict


class _Rooms:
    """A scheduler's room, and the same with only the freshest partitions open: one, two, four, ... of them."""

    def __init__(self, table: Table, number: int) -> None:
        self._table = table
        policy = table.policy
        self._is_picky = looks_at_quality(policy, table.pool.schedulers[number])
        partitions = policy.scheduler_partitions
        ages = [age_of(policy, number, partition=part, round_number=table.pool.rounds) for part in range(partitions)]
        age = np.array([ages[partition_of(node.id, partitions)] for node in table.frozen.nodes], dtype=np.int64)
        self._narrow: list[tuple[Flags, Room]] = []
        width = 1
        while width < partitions and policy.scheduler_sync == Sync.PARTITIONED:
            is_open = age < width
            room = table.room.copy()
            room.close(~is_open)
            self._narrow.append((is_open, room))
            width = partitions if self._is_picky else 2 * width

    def find(self, job: Job) -> Found | Reason | None:
        """Seats by quality, fresh ones among equals; or in the freshest partitions that have any."""
        seating, room = self._table.seating, self._table.room
        if self._is_picky:
            found = find_seats(seating, job, room)
            return self._fresh_equal(job, found) if isinstance(found, Found) else found
        for _, narrow in self._narrow:
            found = find_seats(seating, job, narrow)
            if found is not None:
                return found
        return find_seats(seating, job, room)

    def take(self, places: Iterable[TaskPlacement]) -> None:
        """These places were given to a job."""
        row = self._table.frozen.layout.row
        for place in places:
            for is_open, room in self._narrow:
                if is_open[row[place.node]]:
                    room.take(place)

    def _fresh_equal(self, job: Job, best: Found) -> Found:
        """The best place in the freshest partition if its nodes look exactly like those of the best of all."""
        row = self._table.frozen.layout.row
        rows = sorted({row[place.node] for place in best.seats.tasks})
        for is_open, room in self._narrow:
            if is_open[rows].all():
                continue
            found = find_seats(self._table.seating, job, room)
            if isinstance(found, Found) and found.seats.level == best.seats.level and found.sizes == best.sizes:
                others = sorted({row[place.node] for place in found.seats.tasks})
                if sorted(map(self._look, others)) == sorted(map(self._look, rows)):
                    return found
        return best

    def _look(self, row: int) -> tuple[object, ...]:
        """Equal for nodes that are built alike and have the same free, alone and in each domain they lie in."""
        room, layout = self._table.room, self._table.frozen.layout
        domains = []
        for label in self._table.pool.pool.topology.values():
            number = layout.domains(label)[0]
            domains.append(int(room.free[number == number[row]].sum()) if number[row] >= 0 else -1)
        return (
            layout.build(row),
            room.milli[row].tobytes(),
            room.gpu_memory[row].tobytes(),
            int(room.cpu[row]),
            int(room.memory[row]),
            int(room.places[row]),
            tuple((name, int(free[row])) for name, free in sorted(room.devices.items())),
            tuple(domains),
        )
