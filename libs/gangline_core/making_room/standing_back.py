"""Who does not go on or start yet, since somebody who waits would have it sent away at once.

A paused job goes on before those who wait, and orderings go by other things than what may be sent away for whom. Who
took room that way would hold it until the next event, and lose it then to one that waited for nothing else. So the
round is decided anew without it: it is looked at again behind the other, and gets what that one leaves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice

from msgspec import Struct

from gangline_core.facts import Candidate, TaskPlacement
from gangline_core.groups import holders
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.amounts import add_all
from gangline_core.limits.quota import JOBS
from gangline_core.limits.sheltered import is_lent_whole
from gangline_core.making_room.cheap_looks import Lowest, Still, Sums, give_enough, still_of
from gangline_core.making_room.overtaking import Overtakes
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.sent_at_once import might_be_sent, owing, takes_whole, would_be_sent
from gangline_core.pauses.making_way import fits
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import LIMIT_CODES, Reason, ReasonCode
from gangline_core.reserving.passing import may_pass
from gangline_core.room.holds import placed_amounts
from gangline_core.seating import Found, find_seats
from gangline_core.sharing.beside import without_time
from gangline_core.spec import may_take
from gangline_core.table import Table

STEPS_MAX = 4
"""Jobs of one round for which others stand back, since each has the round decided anew."""
LOOKS_MAX = 16
"""Jobs of one round for which that is thought through."""
NEWEST = 8
"""Of those who might stand back for one so many are looked at, the last to take room."""
CAUSES = ROOM_CODES | LIMIT_CODES
"""What somebody who makes way, or gives up what is being cleared for it, cures."""
UNSTARTED = CAUSES | {ReasonCode.BUDGET_SHORT}
"""What somebody who does not start cures: what its whole run may cost is not kept for it either."""


class Took(Struct, frozen=True):
    """What a job took in this round that starts in it."""

    job: Job
    parts: tuple[TaskPlacement, ...]
    amounts: dict[str, int]


class Going:
    """Paused jobs that go on in one round, and step back when a stronger one that waits finds no room for them."""

    def __init__(self, table: Table, preemptor: Preemptor, back: "StandingBack") -> None:
        """Nobody stepped back yet."""
        self._table = table
        self._preemptor = preemptor
        self._back = back
        self._tried: set[tuple[int, int]] = set()
        self._lowest = Lowest()
        self._sums = Sums(table)

    def make_way(self, job: Job, reason: Reason) -> bool:
        """True when the job starts or has a claim, where some that were about to go on wait on instead."""
        table, more = self._table, partial(self._preemptor.most_freed, job)
        if not table.resumes or reason.code not in CAUSES or not (table.policy.preemption and may_take(job.spec)):
            return False
        key = (table.state.shapes[job.id], len(table.resumes))
        if key in self._tried:
            return False
        self._tried.add(key)
        if not self._lowest.is_below(table, job, table.resumes) or not self._sums.are_enough(job, table.resumes, more):
            return False
        some = _weaker(table, job, self._sums.in_the_way(job, table.resumes))
        if not some or not give_enough(table, job, map(self._sums.still, (one.id for one in some)), more):
            return False
        weaker = [self._sums.still(one.id) for one in _lent(table, job, some)]
        if not weaker or not (table.guarded is None or may_pass(table, job)):
            return False
        if not give_enough(table, job, weaker, more):
            return False
        before = (table.resumes.copy(), table.taken.copy(), table.refused_before)
        _stay(table, weaker)
        found = self._place(job)
        gone = {one.job for one in table.evictions} if found is not None else set[JobId]()
        for one in weaker:
            # Who is not in its way after all goes on; where the look was in vain, everybody.
            if found is None or (one.job.id not in gone and _may_go_on(table, one)):
                _goes_on(table, one)
        if found is None:
            table.resumes[:], table.taken[:], table.refused_before = before
            return False
        stay = [one for one in weaker if one.job.id not in table.kept_for]
        if _leaves(table, stay, found):
            self._back.go_on_last([one.job.id for one in stay])
        return True

    def _place(self, job: Job) -> Found | None:
        """Where it starts, or will when others are gone who would go together with these as soon as they worked."""
        table = self._table
        found = _seats(table, job)
        if isinstance(found, Found):
            table.place(job, found.seats, found.amounts, guarded=False, backfilled=bool(table.reservations))
            return found
        plan = self._preemptor.plan(job)
        return self._preemptor.clear(job, plan) if plan is not None else None


def _stay(table: Table, some: list[Still]) -> None:
    """These do not go on: what they would take is free, but for those who mind reservations."""
    for one in some:
        for part in one.parts:
            table.room.give(part)
        table.kept_for.discard(one.job.id)
    names = {one.job.id for one in some}
    table.resumes[:] = [name for name in table.resumes if name not in names]
    table.give_up([(one.job, one.amounts) for one in some])


def _may_go_on(table: Table, one: Still) -> bool:
    """True when there is room for it all the same, and below its limits."""
    return table.ledger.fault(one.job, one.amounts) is None and fits(table.room, one.parts)


def _goes_on(table: Table, one: Still) -> None:
    """It goes on after all: what reservations leave was without its part all the time."""
    for part in one.parts:
        table.room.take(part)
    table.kept_for.add(one.job.id)
    table.resumes.append(one.job.id)
    table.count(one.job, one.amounts)


def _leaves(table: Table, stay: list[Still], found: Found) -> bool:
    """True when others who were refused before start in what these do not take now, and the job neither."""
    more: dict[str, int] = {}
    for one in stay:
        add_all(more, one.amounts.items())
    nodes = {part.node for one in stay for part in one.parts}
    is_all = nodes.issubset(place.node for place in found.seats.tasks)
    if is_all and all(found.amounts.get(name, 0) >= more[name] for name in more):
        return False
    shapes = dict[int, Job]()
    for job, reason in table.refused:
        if reason.code in CAUSES:
            shapes.setdefault(table.state.shapes[job.id], job)
    return any(_starts(table, one) for one in islice(shapes.values(), LOOKS_MAX))


def _starts(table: Table, job: Job) -> bool:
    """True when the job would start as things are."""
    room = table.room if table.guarded is None or may_pass(table, job) else table.guarded
    return isinstance(find_seats(table.seating, job, room), Found)


def _seats(table: Table, job: Job) -> Found | Reason | None:
    """Where the job would be, whatever limits keep for weaker ones that wait longer: they would make way as well."""
    doubt, table.ledger.doubt = table.ledger.doubt, None
    found = find_seats(table.seating, job, table.room)
    table.ledger.doubt = doubt
    return found


class Order(Struct, frozen=True):
    """In which order a round looks at whom."""

    candidates: Sequence[Candidate]
    claimed: int
    """So many of the round's placements were claimed before it, and others went for them already."""


class StandingBack:
    """Who stands back for whom in one round; kept while the round is decided again and again."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._behind: dict[JobId, frozenset[JobId]] = {}
        """For whom who stands back."""
        self._tried: set[tuple[int, tuple[tuple[JobId, bool], ...]]] = set()
        self._looks = 0
        self._last: list[frozenset[JobId]] = []
        """Paused jobs that go on behind all who wait, step by step."""
        self.is_open = False
        """The round is to be decided anew: nobody needs to look further."""
        self._lowest = Lowest()

    @property
    def everybody(self) -> frozenset[JobId]:
        """Who goes on, or is looked at, only after those for whom that may be."""
        return frozenset().union(*self._behind.values())

    @property
    def go_last(self) -> frozenset[JobId]:
        """Paused jobs that go on only behind all who wait: of what they left, some is for others than one."""
        return frozenset().union(*self._last)

    def go_on_last(self, jobs: Iterable[JobId]) -> None:
        """These left room for more than the one for whom they stepped back: all who wait are to be asked."""
        if len(self._last) < STEPS_MAX:
            self._last.append(frozenset(jobs))
            self.is_open = True

    def in_order(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """The candidates, each that stands back behind all those for whom it does."""
        if not self._behind:
            return candidates
        ordered: list[Candidate] = []
        later: list[Candidate] = []
        before = {job: set[JobId]() for job in self.everybody}
        for job, behind in self._behind.items():
            for other in behind:
                before[other].add(job)
        for candidate in candidates:
            later.append(candidate)
            while (ready := next((one for one in later if not before.get(one.job)), None)) is not None:
                later.remove(ready)
                ordered.append(ready)
                for other in self._behind.get(ready.job, ()):
                    before[other].discard(ready.job)
        return [*ordered, *later]

    def would_help(self, table: Table, preemptor: Preemptor, job: Job, reason: Reason, order: Order) -> bool:
        """True when the round should be decided anew, with weaker candidates behind this one that was refused."""
        if len(table.placements) <= order.claimed or self._looks >= LOOKS_MAX or reason.code not in UNSTARTED:
            return False
        if not (table.policy.preemption and may_take(job.spec)) or len(self._behind) >= STEPS_MAX:
            return False
        names = [placement.job for placement in table.placements[order.claimed :]]
        if not self._lowest.is_below(table, job, names):
            return False
        weaker = _weaker(table, job, names)[-NEWEST:]
        # Who starts beside others would rather have room of its own, such as the others leave.
        beside = {placement.job for placement in table.placements if placement.beside}
        key = (table.state.shapes[job.id], tuple((one.id, one.id in beside) for one in weaker))
        if not weaker or key in self._tried or preemptor.is_through(job):
            return False
        self._tried.add(key)
        self._looks += 1
        taken = [_placed(table, one) for one in _lent(table, job, weaker)]
        if not taken or not _helps(table, job, taken):
            return False
        for one in tuple(taken):
            fewer = [other for other in taken if other is not one]
            if fewer and _helps(table, job, fewer):
                taken = fewer
        waiting = _waiting_before(table, job, order.candidates)
        guests = (one.id for one in weaker if one.id in beside)
        # Where others had what these left before, they all do.
        before = self._behind.get(job.id, frozenset())
        self._behind[job.id] = before.union((one.job.id for one in taken), guests, waiting)
        self.is_open = True
        return True

    def goes_before_claims(self, table: Table, overtakes: Overtakes, job: Job, reason: Reason) -> bool:
        """True when the round should be decided anew, with those behind this one whose claims it would take over."""
        if not table.claims or len(self._behind) >= STEPS_MAX or reason.code not in CAUSES:
            return False
        key = (table.state.shapes[job.id], tuple((claim.job, True) for claim in table.claims))
        if key in self._tried:
            return False
        self._tried.add(key)
        weaker = overtakes.would_lose(table, job)
        if weaker:
            self._behind[job.id] = self._behind.get(job.id, frozenset()) | weaker
            self.is_open = True
        return bool(weaker)

    def is_settled(self, table: Table) -> bool:
        """True when the round stands as it was decided; else it is to be decided anew.

        Where others have what was left, who come before the one it was left for, all is as if those who stand back were
        not there: had they started, that one would have had them sent away, and passed the others.
        """
        if self.is_open:
            self.is_open = False
            return False
        has = {*(placement.job for placement in table.placements), *(claim.job for claim in table.claims)}
        told = {job.id: reason.code for job, reason in table.refused}
        in_vain = next((job for job in reversed(self._behind) if job not in has and self._is_idle(job, told)), None)
        if in_vain is not None:
            del self._behind[in_vain]
        return in_vain is None

    def _is_idle(self, job: JobId, told: Mapping[JobId, ReasonCode]) -> bool:
        """True when what was left for a job that got nothing may be nobody's, as a date keeps it from all."""
        return any(told.get(one, ReasonCode.INSUFFICIENT_GPUS) not in UNSTARTED for one in self._behind[job])


def _weaker(table: Table, job: Job, names: Iterable[JobId]) -> list[Job]:
    """Those of them that may be sent away for this job; where a limit is in the way, only whose use counts below it."""
    jobs, owed_by = table.state.kept.jobs, owing(table, job)
    others: Iterable[Job] = (jobs[name] for name in names)
    if full := {rung.holder for rung, *_ in table.ledger.broken(job, table.seating.least(job).amounts)}:
        # First, since there are few below one limit, and what follows is dear.
        others = [one for one in others if not full.isdisjoint(holders(one.spec.group, one.spec.user))]
    lower = [other for other in others if might_be_sent(table, job, other, owed_by)]
    return [other for other in lower if would_be_sent(table, job, other, owed_by)]


def _lent(table: Table, job: Job, others: list[Job]) -> list[Job]:
    """Those about to begin or go on, from the last one, without which their groups keep what they are guaranteed."""
    if not table.has_guarantees:
        return others
    # Who is owed what it takes gets it back from whoever it was lent to.
    whole = takes_whole(table, job)
    after, lent = table.after, list[tuple[Job, dict[str, int]]]()
    going = frozenset(table.resumes)
    for other in reversed(others):
        amounts = still_of(table, other).amounts if other.id in going else _placed(table, other).amounts
        is_over = after.over_guarantee(other, amounts, beneficiary=job.spec.group, whole=whole)
        # Who is owed its smallest size stands back with nothing, or each would have the other wait.
        is_new, least = whole and other.id not in going, table.seating.least(other).amounts
        if is_over or (is_new and is_lent_whole(table.state, other, least, beneficiary=job.spec.group)):
            after.give(other, amounts)
            lent.append((other, amounts))
    for other, amounts in lent:
        after.take(other, amounts)
    return [other for other, _ in reversed(lent)]


def _placed(table: Table, job: Job) -> Took:
    """What it took."""
    placement = next(one for one in table.placements if one.job == job.id)
    # Who starts beside another one takes no more time of its GPUs than that one has.
    parts = tuple(without_time(placement.tasks)) if placement.beside else placement.tasks
    return Took(job, parts, {**placed_amounts(table.state, placement.tasks), JOBS: 1})


def _waiting_before(table: Table, job: Job, candidates: Sequence[Candidate]) -> Iterator[JobId]:
    """Weaker candidates before it that did not start, and would take what others do not, who stand back."""
    jobs, started = table.state.kept.jobs, {placement.job for placement in table.placements}
    owed_by = owing(table, job)
    for candidate in candidates:
        if candidate.job == job.id:
            return
        other = jobs.get(candidate.job)
        if other is None or other.id in started or not might_be_sent(table, job, other, owed_by):
            continue
        if would_be_sent(table, job, other, owed_by) and not table.is_owed(other):
            yield other.id


def _helps(table: Table, job: Job, weaker: list[Took]) -> bool:
    """True when the job starts or gets a claim in what these took."""
    with _given_back(table, weaker):
        room = table.room if table.guarded is None or may_pass(table, job) else table.guarded
        found = find_seats(table.seating, job, room)
        if isinstance(found, Reason):
            # What a limit keeps for those before it, who would stand back as well, is looked at then.
            return found.code == ReasonCode.LIMIT_KEPT or Preemptor(table).plan(job) is not None
        return found is not None or Preemptor(table).plan(job) is not None


@contextmanager
def _given_back(table: Table, weaker: list[Took]) -> Iterator[None]:
    """Meanwhile what these took is free."""
    rooms = [room for room in (table.room, table.guarded) if room is not None]
    for one in weaker:
        for part in one.parts:
            for room in rooms:
                room.give(part)
        for ledger in (table.ledger, table.after):
            ledger.give(one.job, one.amounts)
    yield
    for one in weaker:
        for part in one.parts:
            for room in rooms:
                room.take(part)
        for ledger in (table.ledger, table.after):
            ledger.take(one.job, one.amounts)
