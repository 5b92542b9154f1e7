"""The table of one round: what is free, what was decided so far, and what those decisions took.

Three views of room: `room` is what may be taken now (claims keep theirs); `guarded` is the same less what reservations
need, for jobs that would still be there when a reservation begins; a `Releases` is made only when a date is needed.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from gangline_core.facts import (
    Claim,
    Eviction,
    Growth,
    JobPaused,
    LimitDate,
    Lowering,
    Placement,
    Reservation,
    Restart,
    RoundDecided,
    Shrink,
    TaskPlacement,
)
from gangline_core.foresight.run_times import expected_run_ms
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, Task, TaskState
from gangline_core.limits.handover import count_claim, each_going, going_parts
from gangline_core.limits.quota import Ledger
from gangline_core.making_room.service_index import Standing
from gangline_core.placement import doubt_for, placer_for, view_for
from gangline_core.placement.gang import Seats
from gangline_core.placement.tenants import beside_tenants, seen_beside_tenants
from gangline_core.reasons import Reason
from gangline_core.refusing.recorded import recorded
from gangline_core.reserving.closures import Closures
from gangline_core.reserving.promised import Promised
from gangline_core.reserving.releases import UNKNOWN_MS, Releases, run_ms
from gangline_core.room.beside import Beside
from gangline_core.room.capacity import Flags, Holding, Room
from gangline_core.room.holds import placed_amounts
from gangline_core.room.rests import Rests
from gangline_core.seating import Asked, Seating, unless_hopeless
from gangline_core.state import OpenRound, State, task_amounts

ROUND_TASKS_MAX = 1_000
"""Tasks placed in one round; the next round follows at once, so that no decision takes long or grows large."""
Served = dict[JobId, tuple[int, int]]
"""Where jobs stand where service orders: their queue in half steps, then their age."""
Sunk = dict[JobId, frozenset[JobId]]
"""Whom service puts below a waiting job."""


class Held(Struct, frozen=True):
    """A claim and the tasks it still waits for."""

    claim: Claim
    alive: tuple[TaskId, ...]


class Table:
    """Scratch memory of one decision; nothing here outlives the round."""

    def __init__(self, state: State, pool: str, now: int, *, frozen: Room | None = None) -> None:
        """The frozen state of a pool at `now`; `frozen` is what is free where somebody sees it otherwise."""
        self.state, self.now = state, now
        self.pool = state.kept.pools[pool]
        self.policy = self.pool.policy
        self.frozen = state.room(pool) if frozen is None else frozen
        self.room = self.frozen.copy()
        self.guarded: Room | None = None
        self.promised = Promised()
        self.ledger = Ledger(state, now)
        self.taken: list[tuple[Job, dict[str, int]]] = []
        self._after: Ledger | None = None
        self.ports = state.ports.overlay()
        self.lowered: dict[JobId, JobId] = {}
        """Jobs that give up their cells in this round, and for whom."""
        beside = Beside(state, pool, now, placed=self._places, lowered=self.lowered)
        self.seating = Seating(
            asks=(asked := Asked.of(self.frozen.layout, self.pool.pool)).asks,
            wanted=asked.wanted,
            state=state,
            pool=self.pool.pool,
            placer=beside_tenants(unless_hopeless(placer_for(self.policy.placement, beside))),
            view=seen_beside_tenants(view_for(self.policy.placement, beside)),
            doubt=doubt_for(self.policy.placement, beside),
            ledger=self.ledger,
            closures=Closures(state, now),
        )
        self.has_guarantees = any(group.guaranteed for group in state.kept.groups.values())
        self.held: list[Held] = []
        self.leaving, self.leaving_elsewhere = set[TaskId](), set[TaskId]()
        """Tasks that claims of this pool wait for, and of other pools."""
        self.rests, self.rests_elsewhere = Rests(), Rests()
        self.ceded: set[TaskId] = set()
        """Tasks that claims wait for which are ceded below limits alone."""
        self._decide_nothing()

    def _decide_nothing(self) -> None:
        """What this round comes to, before anything is decided."""
        self.placed: list[tuple[TaskPlacement, int]] = []
        """Tasks placed in this round, and when they are expected to end."""
        self.placements: list[Placement] = []
        self.growths: list[Growth] = []
        self.restarts: list[Restart] = []
        self.refused: list[tuple[Job, Reason]] = []
        self.refused_before = 0
        """So many of them were refused before the last time that somebody took room."""
        self.evictions: list[Eviction] = []
        self.shrinks: list[Shrink] = []
        self.claims: list[Claim] = []
        self.claims_dropped: list[JobId] = []
        self.reservations: list[Reservation] = []
        self.first_reserved_ms = UNKNOWN_MS
        """When the first of them begins."""
        # Those of opportunistic jobs, which bind opportunistic ones alone.
        self.loose: list[Reservation] = []
        self.limit_dates: list[LimitDate] = []
        self.pauses: list[JobPaused] = []
        self.resumes: list[JobId] = []
        self.packings: list[tuple[JobId, JobId]] = []
        # Paused jobs whose place is kept, whether it is free already or not.
        self.kept_for: set[JobId] = set()
        self.late_starts: list[JobId] = []
        """Gangs that had room but did not start in time."""
        self.late_repairs: list[JobId] = []
        """Jobs whose missing members found no room in time."""
        self.unseen = 0
        """Candidates that were not looked at."""
        # What service_order looked up already.
        self.served, self.sunk = Served(), Sunk()
        self.by_service: list[Standing] | None = None
        self.milli_behind: list[int] = []
        self.is_moving = False
        """True while jobs change their GPU model: who was not taken for a lease starts nowhere in the meantime."""
        self.heads: tuple[tuple[str, JobId], ...] = ()
        """Who stood in front of each strict level and found no room."""

    # --- views ------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """True when this round has placed as much as one round may."""
        return len(self.placed) >= ROUND_TASKS_MAX

    def is_owed(self, job: Job) -> bool:
        """True when the job, at its smallest, stays within what its group is guaranteed."""
        return self.has_guarantees and self.ledger.within_guarantee(job, self.seating.least(job).amounts)

    def reserved_rows(self) -> Flags:
        """The nodes that reservations count on."""
        return self.frozen.layout.flags_of(place.node for one in self.reservations for place in one.tasks)

    def ends_before_reservations(self, job: Job, *, delay_ms: int = 0) -> bool:
        """True when its limit, or what is expected of it, ends before any reservation; never without backfill."""
        if not self.policy.backfill:
            return False
        limit_ms = job.spec.time_limit_s * 1000 or self.expected_ms(job)
        return bool(limit_ms) and self.now + delay_ms + limit_ms <= self.first_reserved_ms

    def run_ms(self, job: Job) -> int | None:
        """How long a job may or is expected to run; None when nobody knows."""
        return run_ms(job.spec) or self.expected_ms(job) or None

    @cached_property
    def _runs(self) -> dict[int, int]:
        """Expected run times by kind of waiting job."""
        return {}

    def expected_ms(self, job: Job) -> int:
        """What is expected of it, worked out once for waiting jobs that are alike."""
        columns = self.state.columns.get(self.pool.pool.name)
        kind = None if columns is None or job.learnt_ms or job.spec.time_limit_s else columns.kind_of(job.id)
        if columns is None or kind is None:
            return expected_run_ms(self.state, job, self.policy)
        found = self._runs.get(kind)
        if found is None:
            found = self._runs[kind] = expected_run_ms(self.state, job, self.policy, names=columns.alike[kind])
        return found

    @property
    def after(self) -> Ledger:
        """Usage as it will be: with everything this round gave, and without what is stopping or has to go."""
        if self._after is None:
            self._after = Ledger(self.state, self.now)
            for job, amounts in self.taken:
                self._after.take(job, amounts)
            for name in sorted(self.state.stopping_tasks):
                task = self.state.kept.tasks[name]
                if task.state != TaskState.LOST:
                    self._after.give(self.state.kept.jobs[task.job], task_amounts(task))
        return self._after

    def settled(self) -> Room:
        """The room when all claims are settled, beside everything that this round decided already."""
        settled = self.frozen.copy()
        for part in going_parts(self, [self.state.kept.tasks[task] for task in sorted(self.leaving)]):
            settled.give(part)
        for held in self.held:
            for place in held.claim.placement.tasks:
                settled.take(place)
        for place, _ in self.placed:
            settled.take(place)
        return settled

    def releases(self, going: frozenset[TaskId] = frozenset()) -> Releases:
        """What comes back when, beside everything that this round decided already, and when these tasks go at once."""
        settled, more = self.settled(), sorted(going - self.leaving)
        for part in going_parts(self, [self.state.kept.tasks[task] for task in more]) if more else ():
            settled.give(part)
        releases = Releases(self.state, settled, leaving=self.leaving | going)
        if self.placed:
            releases.add(self.placed)
        return releases

    def _places(self) -> Iterator[TaskPlacement]:
        """What this round placed or keeps for claims."""
        yield from (place for place, _ in self.placed)
        for held in self.held:
            yield from held.claim.placement.tasks

    # --- deciding ---------------------------------------------------------------------------------------

    def place(self, job: Job, seats: Seats, amounts: dict[str, int], *, guarded: bool, backfilled: bool) -> None:
        """The job starts on these seats; `guarded` when they were found beside what reservations need."""
        tasks = seats.tasks
        self._take(job, tasks, guarded=guarded)
        self.count(job, amounts)
        self.placements.append(
            Placement(
                job=job.id,
                attempt=job.attempt + 1,
                tasks=tasks,
                port=self.port_for(tasks),
                level=seats.level,
                backfilled=backfilled,
            )
        )

    def port_for(self, tasks: tuple[TaskPlacement, ...]) -> int:
        """A port on which no other gang meets where rank 0 will be."""
        return self.ports.next(self.state.kept.nodes[tasks[0].node].address)

    def grow(self, job: Job, tasks: tuple[TaskPlacement, ...], amounts: dict[str, int]) -> None:
        """A running elastic job gets these members more."""
        self._take(job, tasks, guarded=True)
        self.count(job, amounts)
        self.growths.append(Growth(job=job.id, attempt=job.attempt, tasks=tasks))

    def start_again(self, job: Job, placement: Placement, more: tuple[TaskPlacement, ...], why: str) -> None:
        """A gang stops and starts again on this placement, which is `more` than it has now."""
        self._take(job, more, guarded=True)
        self.count(job, placed_amounts(self.state, more))
        self.restarts.append(Restart(job=job.id, placement=placement, why=why))

    def start_over(self, restarts: Sequence[Restart], own: Sequence[Task], amounts: Sequence[dict[str, int]]) -> None:
        """Gangs stop and start again at once, in what is free and what they have between them (`own`)."""
        places = tuple(place for restart in restarts for place in restart.placement.tasks)
        for room in (self.room, self.guarded):
            if room is not None:
                room.keep_both(own, places)
        self.placed.extend((place, UNKNOWN_MS) for place in places)
        for restart, more in zip(restarts, amounts, strict=True):
            self.count(self.state.kept.jobs[restart.job], more)
        self.restarts.extend(restarts)

    def go_on(self, job: Job, parts: Iterable[Task], amounts: dict[str, int]) -> None:
        """A paused job goes on: it takes what it gave up."""
        self.keep_place(job, parts, amounts)
        self.resumes.append(job.id)

    def pack(self, job: Job, host: Job, parts: Iterable[Task], amounts: dict[str, int]) -> None:
        """A paused job goes on beside this one: it takes no more time of the GPUs than that one gives up."""
        self.keep_place(job, parts, amounts)
        self.packings.append((job.id, host.id))

    def keep_place(self, job: Job, parts: Iterable[Task], amounts: dict[str, int]) -> None:
        """Nobody else gets what a paused job takes when it goes on, though some of it may not be free yet."""
        for part in parts:
            for room in (self.room, self.guarded):
                if room is not None:
                    room.take(part)
        self.kept_for.add(job.id)
        self.count(job, amounts)

    def hold(
        self, claim: Claim, alive: tuple[TaskId, ...], amounts: dict[str, int], *, others: Collection[TaskId] = ()
    ) -> None:
        """Keep a claim's room: others get no more than is free both before and after its victims are gone.

        A task that two claims wait for leaves to the second what the first does not take; no room of `others` is its.
        What goes for a claim and what the claim takes never count at once below a limit, so the larger of both does.
        """
        tasks = {name: self.state.kept.tasks[name] for name in alive if name not in self.leaving}
        left = self.rests.take(alive)
        counted = parts = going_parts(self, [task for name, task in tasks.items() if name not in others])
        if others or self.ceded:
            counted = going_parts(self, [task for name, task in tasks.items() if name not in self.ceded])
        going = [*parts, *(rest.part for rest in left if rest.part.id not in others)]
        for room in filter(None, (self.room, self.guarded)):
            room.keep_both(going, claim.placement.tasks)
        far = going_parts(self, [tasks[name] for name in tasks if name in others and name not in self.ceded])
        self.rests.leave(claim, each_going(parts, left, ceded=self.ceded, far=far), amounts)
        self.promised.take(claim.placement.tasks)
        self.held.append(Held(claim=claim, alive=alive))
        self.leaving.update(name for name in tasks if name not in others)
        self.ceded.update(name for name in tasks if name in others)
        count_claim(self, self.state.kept.jobs[claim.job], amounts, counted, left)

    def reserve(self, reservation: Reservation, later: Room, wanted: Flags) -> list[int]:
        """Jobs that would be in the way of this reservation get no more than it leaves of the room at its beginning.

        Without backfill nobody passes on any of the nodes that the job could use (`wanted`).
        """
        self.reservations.append(reservation)
        self.first_reserved_ms = min(self.first_reserved_ms, reservation.start_ms)
        for place in reservation.tasks:
            later.take(place)
        self.guarded = self.guarded or self.room.copy()
        rows = sorted(self._rows(reservation.tasks))
        self.guarded.lower_to(later.rows(rows))
        if not self.policy.backfill:
            self.guarded.close(wanted)
        return rows

    def refuse(self, job: Job, reason: Reason) -> None:
        """The job waits on, for this reason."""
        self.refused.append((job, reason))

    def count(self, job: Job, amounts: dict[str, int]) -> None:
        """So much is the job's from now on, below limits and guarantees."""
        for ledger in filter(None, (self.ledger, self._after)):
            ledger.take(job, amounts)
        self.refused_before = len(self.refused)
        self.taken.append((job, amounts))

    def give_up(self, counted: list[tuple[Job, dict[str, int]]]) -> None:
        """What was counted so for each of these jobs is not theirs after all."""
        for ledger in filter(None, (self.ledger, self._after)):
            for job, amounts in counted:
                ledger.give(job, amounts)
        gone = {job.id: (job, amounts) for job, amounts in counted}
        self.taken[:] = [one for one in self.taken if gone.get(one[0].id) != one]

    def _take(self, job: Job, tasks: tuple[TaskPlacement, ...], *, guarded: bool) -> None:
        length = self.run_ms(job)
        end = UNKNOWN_MS if length is None else self.now + length
        for place in tasks:
            self.room.take(place)
            self.placed.append((place, end))
            if self.guarded is not None and guarded:
                self.guarded.take(place)
        if guarded:
            self.promised.take(tasks)
        if self.guarded is not None and not guarded:
            self.guarded.lower_to(self.room.rows(sorted(self._rows(tasks))))

    def _rows(self, holdings: Iterable[Holding]) -> set[int]:
        row = self.frozen.layout.row
        return {row[holding.node] for holding in holdings if holding.node in row}

    # --- recording --------------------------------------------------------------------------------------

    def record(self, opened: OpenRound, *, calls_for_more: bool) -> RoundDecided:
        """Step 6: everything decided, with the digest of the state it was decided on."""
        return RoundDecided(
            pool=self.pool.pool.name,
            round=opened.opened.round,
            placements=tuple(self.placements),
            growths=tuple(self.growths),
            refusals=recorded(self.refused, starts_somebody=bool(self.placements)),
            evictions=tuple(self.evictions),
            shrinks=tuple(self.shrinks),
            claims=tuple(self.claims),
            claims_dropped=tuple(self.claims_dropped),
            reservations=(*self.reservations, *self.loose),
            limit_dates=tuple(self.limit_dates),
            unplaced=self._unplaced(opened),
            unseen=self.unseen,
            calls_for_more=calls_for_more,
            digest=self.state.kept.digest,
            heads=self.heads,
            late_starts=tuple(self.late_starts),
            late_repairs=tuple(self.late_repairs),
            pauses=tuple(self.pauses),
            resumes=tuple(self.resumes),
            packings=tuple(self.packings),
            restarts=tuple(self.restarts),
            lowerings=tuple(Lowering(job=job, beneficiary=self.lowered[job]) for job in sorted(self.lowered)),
        )

    def _unplaced(self, opened: OpenRound) -> int:
        """Candidates that did not start in this round, by a scheduler's share or here."""
        jobs = {candidate.job for candidate in opened.opened.candidates} - {p.job for p in self.placements}
        jobs.difference_update(opened.opened.limited)
        if self.pool.schedulers:
            return sum(1 for job in jobs if job in self.state.waiting.get(self.pool.pool.name, {}))
        return len(jobs)
