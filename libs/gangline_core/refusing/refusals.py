"""What this round refused already: equal asks are refused at once, and reasons are shared."""

from bisect import bisect_left

from msgspec.structs import replace

from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job
from gangline_core.making_room.in_time import starts_until_ms
from gangline_core.making_room.service_order import orders_by_service
from gangline_core.making_room.yielding import passes_above
from gangline_core.placement.gang import Gang
from gangline_core.placement.why_not import ROOM_CODES, why_not
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.refusing.recorded import EXACT_MAX
from gangline_core.reserving.closures import window_reason
from gangline_core.reserving.releases import UNKNOWN_MS
from gangline_core.reserving.reserve import reserved_reason
from gangline_core.room.capacity import Room
from gangline_core.table import Table

Asking = tuple[int, tuple[JobId, ...], int | None, tuple[NodeId, ...], tuple[int, ...], int]
"""What is asked, whom the job may not have evicted, above which queue others that checkpoint make way for it, which
nodes are closed to it, how many dates it is expected to end before, and until when others must be gone for it."""
BESIDE_LOOSE_DATES = 2
OUTLIVED = frozenset({ReasonCode.RESERVED, ReasonCode.WINDOW})
"""What says that there is room but for something else, which is false when there is none."""
LASTING = frozenset({ReasonCode.NO_ELIGIBLE_NODE, ReasonCode.NO_LABEL, ReasonCode.POSTPONED})
"""What nobody's start changes, and what was not searched to its end."""


class Refuser:
    """Remembers refusals of one round. Room only gets less while a round goes on, so a refusal stays true.

    Except where who was about to go on waits on for somebody: then `room_came_back`.
    """

    def __init__(self, table: Table) -> None:
        """Nothing refused yet."""
        self._table = table
        self._are_all_dated = table.policy.backfill_depth > 1
        """Equal jobs have a date each, of room or below a limit."""
        self._by_shape: dict[Asking, Reason] = {}
        self.shapes: set[int] = set()
        """Of whom jobs were refused, though perhaps some that had less service."""
        self._no_room: dict[tuple[int, int, tuple[NodeId, ...]], Reason] = {}
        """By what is asked of room alone (whoever asks), whether beside reservations, and without which nodes."""
        self._fits: dict[tuple[int, int, tuple[NodeId, ...]], bool] = {}
        """By the same: whether there is room but for reservations."""
        self._shared: dict[tuple[object, ...], Reason] = {}
        self._by_limit: dict[tuple[object, ...], Reason] = {}
        """By what is counted below whose limits, where nothing but those is in the way, wherever the job might go."""
        pools = table.state.kept.pools.values()
        self._elsewhere = [date.start_ms for pool in pools if pool is not table.pool for date in pool.limit_dates]
        """When the dates of other pools begin."""
        self._starts_ms: list[int] = []
        """When these and the dates that this round has given so far begin, soonest first."""
        self._before: dict[tuple[int, int], tuple[int, ...]] = {}
        """Per lengths of a run, before how many of them it ends."""
        self._told: JobId | None = None
        """Whom `known` gave a reason just now, so that there is nothing new to remember of it."""

    @property
    def knows_limits(self) -> bool:
        """True when some are refused by what they count below their limits, whatever their shape."""
        return bool(self._by_limit)

    def known(self, job: Job) -> Reason | None:
        """The reason for which an equal job was refused in this round, or one that counts as much below its limits."""
        self._told = None
        if not self._by_limit and self._shape(job) not in self.shapes:
            return None
        shape = self._asking(job)
        reason = self._by_shape.get(shape)
        if reason is not None and self._are_all_dated and reason.code in ROOM_CODES and self.is_above_limits(job):
            return None
        if reason is None and self._by_limit:
            reason = self._by_limit.get(self._count(job))
            if reason is not None:
                self._keep(shape, reason)
        if reason is not None:
            self._told = job.id
        return reason

    def limited(self, job: Job, reason: Reason) -> None:
        """No room helps such jobs: they are above their limits, and nobody who could go would change that."""
        pool = self._table.pool.pool
        if not (pool.cells or pool.pinned or orders_by_service(self._table.policy)):
            self._by_limit[self._count(job)] = reason

    def remember(self, job: Job, reason: Reason) -> bool:
        """Keep the reason for equal jobs; False when it was known already."""
        if job.id == self._told:
            return False
        shape = self._asking(job)
        is_new = shape not in self._by_shape
        self._keep(shape, reason)
        return is_new

    def room_came_back(self) -> None:
        """What was asked in vain is asked anew: some room is free again, also below limits, and a job started in it."""
        for known in (self._no_room, self._fits, self._by_limit, self._by_shape):
            known.clear()
        self.shapes.clear()
        self._told = None

    def no_room(self, job: Job, room: Room) -> Reason | None:
        """Why the same was asked of this room before in vain; None when it was not, or where a limit is told first."""
        if not self._no_room or (key := self._key(job, room))[1] == BESIDE_LOOSE_DATES:
            return None
        reason = self._no_room.get(key)
        return None if reason is None or self.is_above_limits(job) else reason

    def is_above_limits(self, job: Job) -> bool:
        """True when a limit keeps the job out: it has a date there, and none for the pool's room."""
        return self._table.ledger.fault(job, self._table.seating.least(job).amounts) is not None

    def reason(self, job: Job, room: Room) -> Reason:
        """Why the job finds no room here."""
        key = self._key(job, room)
        reason = self._no_room.get(key)
        if reason is None or key[1] == BESIDE_LOOSE_DATES:
            found = kept_by_date(self._table, job, room) or self._why(job, room)
            reason = self._no_room[key] = self._share(found)
        return reason

    def anew(self, job: Job, told: Reason) -> Reason:
        """Why a job that was refused before for lack of room still waits, now that others took some of it."""
        table, key = self._table, self._key(job, self._table.room)
        if told.code == ReasonCode.RESERVED:
            if key not in self._fits:
                self._fits[key] = table.seating.placer(table.room, table.seating.least(job).gang) is not None
            if self._fits[key]:
                return told
        return self.reason(job, table.room)

    def _keep(self, shape: Asking, reason: Reason) -> None:
        self._by_shape[shape] = reason
        self.shapes.add(shape[0])

    def _key(self, job: Job, room: Room) -> tuple[int, int, tuple[NodeId, ...]]:
        """What decides whether there is room: the ask, which room, and which nodes are closed to the job."""
        table = self._table
        # What is left beside opportunistic jobs' reservations is made anew for each one that asks: nothing holds there.
        which = 0 if room is table.room else 1 if room is table.guarded else BESIDE_LOOSE_DATES
        return table.seating.number(job), which, table.seating.closures.nodes(job.spec)

    def _why(self, job: Job, room: Room) -> Reason:
        doubt = self._table.seating.doubt(room, self._table.seating.least(job).gang)
        return lack_of(self._table, job) if doubt is None else doubt

    def _share(self, reason: Reason) -> Reason:
        return self._shared.setdefault((reason.code, *sorted(reason.numbers.items())), reason)

    def _count(self, job: Job) -> tuple[object, ...]:
        """What decides how a job fares below its limits: who it is of, how important, and what it counts."""
        spec = job.spec
        models = [role.resources.gpu_models for role in spec.roles]
        # Where budgets must hold what starts can cost, that is an amount like all others.
        amounts = self._table.ledger.asked(job, self._table.seating.least(job).amounts)
        who = (spec.group, spec.user, spec.level, spec.priority, spec.service_class, spec.preempts, job.yielded_to)
        return (*who, passes_above(self._table, job), *models, *amounts.items())

    def _shape(self, job: Job) -> int:
        return self._table.state.shapes[job.id]

    def _asking(self, job: Job) -> Asking:
        """What decides how a job fares in this round."""
        closed = self._table.seating.closures.nodes(job.spec)
        apart = passes_above(self._table, job), closed, self._ends_before(job), starts_until_ms(job)
        return self._shape(job), job.yielded_to, *apart

    def _ends_before(self, job: Job) -> tuple[int, ...]:
        """How many dates a job without a time limit is expected to end before: by others like it, and by its estimate.

        Dates that are added later leave those who end before as many no more than these had.
        """
        table = self._table
        if job.spec.time_limit_s or not table.policy.backfill:
            return ()
        starts_ms = self._dates()
        if not starts_ms:
            return ()
        expected_ms = table.expected_ms(job)
        lengths = (expected_ms, job.spec.estimate_s * 1000 or expected_ms)
        found = self._before.get(lengths)
        if found is None:
            ends_ms = (table.now + length_ms if length_ms else UNKNOWN_MS for length_ms in lengths)
            found = self._before[lengths] = tuple(len(starts_ms) - bisect_left(starts_ms, end_ms) for end_ms in ends_ms)
        return found

    def _dates(self) -> list[int]:
        """When dates begin that were given so far, soonest first."""
        table = self._table
        count = len(self._elsewhere) + len(table.limit_dates) + len(table.reservations) + len(table.loose)
        if count != len(self._starts_ms):
            own = [date.start_ms for date in (*table.reservations, *table.loose)]
            self._starts_ms = sorted([*self._elsewhere, *own, *(date.start_ms for date in table.limit_dates)])
            self._before.clear()
        return self._starts_ms


def look_again(table: Table) -> None:
    """Refusals of a round in which somebody started after one are those that the room at its end gives.

    Who may not pass a reservation, or would run into a window, may lack plain room by then, and of what is free there
    is less. One more round would say so, but none follows as long as nothing else happens. Those told after the last
    start are looked at as well: equal jobs were told what the first of them was. Numbers of a crowd that lacks GPUs may
    be those of before.
    """
    if not table.refused_before:
        return
    refuser = Refuser(table)
    changing = ROOM_CODES - LASTING
    if len(table.refused) > EXACT_MAX:
        changing -= {ReasonCode.INSUFFICIENT_GPUS}
    for place, (job, told) in enumerate(table.refused):
        if told.code not in changing and told.code not in OUTLIVED:
            continue
        reason = refuser.anew(job, told)
        if reason.code in ROOM_CODES or told.code in OUTLIVED:
            table.refused[place] = job, reason


def kept_by_date(table: Table, job: Job, room: Room) -> Reason | None:
    """The dated capacity, or the reservation, without which the job would have room; None where it would not."""
    window = _window_in_the_way(table, job, room)
    if window is not None or room is table.room:
        return window
    if table.seating.placer(table.room, table.seating.least(job).gang) is not None:
        return reserved_reason(table)
    return _window_in_the_way(table, job, table.room)


def lack_of(table: Table, job: Job) -> Reason:
    """What a job lacks that would find no room on any date; nodes that only a window closes to it suit it."""
    gang = table.seating.least(job).gang
    reason = why_not(table.seating.view(table.room, gang), gang)
    if reason.code != ReasonCode.NO_ELIGIBLE_NODE or not table.seating.closures.nodes(job.spec):
        return reason
    gang = _beside_windows(table, job)
    return why_not(table.seating.view(table.room, gang), gang)


def _window_in_the_way(table: Table, job: Job, room: Room) -> Reason | None:
    """The dated capacity without which the job would fit; None where it would not, or none closes nodes to it."""
    if not table.seating.closures.nodes(job.spec):
        return None
    fits = table.seating.placer(room, _beside_windows(table, job)) is not None
    return window_reason(table.state, job.spec, table.now) if fits else None


def _beside_windows(table: Table, job: Job) -> Gang:
    """What the job asks for at its smallest, as if no window closed nodes to it."""
    return replace(table.seating.least(job).gang, excluded=job.spec.exclude_nodes)
