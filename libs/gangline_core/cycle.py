"""One scheduling round, readable aloud.

    1. Freeze      the state at the log sequence seen, and `now`
    2. Who may     gates: dependencies, times, limits, budgets; each job kept out has its reason
    3. Order       the pool's ordering, every term of the score kept
    4. Place       whole gangs in that order: as things are, by shrinking, by evicting
    5. Reserve     a date for the first that cannot start; later ones pass only if they are not in its way
    6. Record      placements, refusals with one reason each, evictions, claims, reservations, the digest

`open_round` is steps 1 to 3 and the queue service's, `decide_round` is steps 1 and 4 to 6 and the placement service's;
two facts join them. Both are pure: the same state and the same `now` give the same bytes.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gangline_core.aged_part import AgedPart
from gangline_core.batch import Batch
from gangline_core.elasticity import grow
from gangline_core.facts import Candidate, RoundDecided, RoundOpened
from gangline_core.foresight.outlook import foresee
from gangline_core.ids import JobId
from gangline_core.in_view import edges_of, in_view
from gangline_core.job import Job, JobState
from gangline_core.late_starts import late_starts
from gangline_core.limits import gates
from gangline_core.limits.dates import LimitDates, dates_pass
from gangline_core.making_room.claims import honour_claims, waiting_reason
from gangline_core.making_room.hanging import hanging, waits_for_hanging
from gangline_core.making_room.lowering import lower_in_place
from gangline_core.making_room.overtaking import Overtakes
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.shields import with_marks
from gangline_core.making_room.standing_back import CAUSES, Going, Order, StandingBack
from gangline_core.pauses import leases
from gangline_core.pauses.resuming import clear_late, go_on_last, honour_paused, wants_to_go_on
from gangline_core.pauses.rotation import rotate
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import LIMIT_CODES, Reason, ReasonCode
from gangline_core.refusing.crowd import Crowd
from gangline_core.refusing.out_of_view import may_fare_better
from gangline_core.refusing.refusals import Refuser, look_again
from gangline_core.repairing import misses_members, repair
from gangline_core.reserving.dates_of_the_rest import keep_dates
from gangline_core.reserving.loose_dates import LooseDates
from gangline_core.reserving.passing import keeps_from_all, may_pass
from gangline_core.reserving.reserve import Reserver
from gangline_core.scoring.levels import Heads
from gangline_core.scoring.waiting import Waiting
from gangline_core.seating import Found, find_seats
from gangline_core.sharing.guests import Guests
from gangline_core.sharing.pairs import Pairs
from gangline_core.spec import ServiceClass
from gangline_core.state import State
from gangline_core.table import Table


def round_due(state: State, pool: str) -> bool:
    """True when something happened since the last round was opened that the next one could make use of."""
    known = state.kept.pools[pool]
    if known.open_round is not None:
        return False
    is_new = state.kept.changed_seq > known.opened_seq or known.looks_left > 0
    is_stirred = is_new and bool(state.waiting.get(pool))
    is_unfinished = wants_to_go_on(state, pool) or misses_members(state, pool)
    may_go_on = known.opened_seq < state.kept.changed_seq and is_unfinished
    return is_stirred or may_go_on or bool(known.proposals)


def open_round(
    state: State, pool: str, now: int, *, somebody_comes: bool = False, foresees: bool = True
) -> RoundOpened | None:
    """Who may be placed now and in which order; None when a round is open already or there is nothing to decide.

    With `somebody_comes` it is as if there were one more job, for whose sake a round is opened anyway. Without
    `foresees` no forecasts are drawn, on which no decision rests: where nobody would read them.
    """
    known = state.kept.pools[pool]
    if known.open_round is not None:
        return None
    sieve = gates.Sieve(state, pool, now)
    may, kept_out, given_up = sieve.may(), sieve.changed(), sieve.given_up()
    going_on = wants_to_go_on(state, pool) or misses_members(state, pool)
    renews = leases.is_over(known, now) and (len(may) > 0 or leases.moves(state, known, now))
    moves = known.proposals or late_starts(state, pool, now) or going_on or renews or dates_pass(known, now)
    if not (len(may) or kept_out or given_up or moves or somebody_comes):
        return None
    front = sieve.foremost() if known.policy.backfill_depth else frozenset()
    waiting = Waiting(state, known, (sieve.columns, sieve.may(front)), now=now)
    terms, candidates, looks = in_view(waiting, {*state.kept.claims, *front})
    edges = edges_of(waiting, candidates)
    free = [candidate for candidate in candidates if candidate.job not in front] if front else candidates
    lent = leases.lend(state, known, free, now) if renews else leases.Lent()
    return RoundOpened(
        pool=pool,
        round=known.rounds + 1,
        candidates=candidates,
        terms=terms,
        kept_out=tuple(kept_out),
        given_up=tuple(given_up),
        waiting=len(waiting),
        policy_version=known.policy.version,
        edges=edges or (),
        is_cut=edges is None,
        foreseen=foresee(state, known, free, waiting=len(waiting), now=now) if foresees else (),
        leases=lent.leases,
        parts=lent.parts,
        limited=tuple(candidate.job for candidate in candidates if candidate.job in front),
        companies=lent.companies,
        looks=looks,
    )


def decide_round(state: State, pool: str, now: int) -> RoundDecided:
    """Decide the pool's open round; `now` is the time at which it was opened.

    Raises:
        ValueError: no round of the pool is open.
    """
    opened = state.kept.pools[pool].open_round
    if opened is None:
        raise ValueError(f"no round of pool {pool} is open")
    layout = lay_out(state, pool, now, opened.opened)
    table = layout.table
    clear_late(table)
    grow(table)
    look_again(table)
    table.placements = with_marks(table, opened.opened.candidates)
    return table.record(opened, calls_for_more=may_fare_better(table, opened.opened))


class Layout(NamedTuple):
    """A round after step 5, for whoever stands behind its candidates."""

    table: Table
    preemptor: Preemptor
    heads: Heads
    loose: LooseDates
    claimed: int
    """So many of the round's placements were claimed before it, and others went for them already."""


def lay_out(state: State, pool: str, now: int, opened: RoundOpened) -> Layout:
    """Steps 4 and 5 on scratch paper."""
    overtakes, back = Overtakes(), StandingBack()
    while True:
        table = Table(state, pool, now)
        table.late_starts.extend(late_starts(state, pool, now))
        honour_claims(table, overtakes.overtaken, overtakes.ceding)
        repair(table)
        last = back.go_last | overtakes.standing_there(state, pool)
        honour_paused(table, last)
        beside = Heads(table), LooseDates(table), len(table.placements)
        layout = Layout(table, Preemptor(table, overtakes.heirs), *beside)
        rotate(table, layout.preemptor, behind=back.everybody, is_new=bool(opened.leases))
        if table.is_moving:
            _wait_for_movers(table, opened)
        else:
            _Placing(layout, opened, overtakes, back).place_all()
        if not back.is_open:
            go_on_last(table, last)
        # Where somebody is to stand back the round was not decided to its end, so it tells nothing of heirs.
        if (back.is_open or overtakes.is_settled(table)) and back.is_settled(table):
            return layout


class _Placing:
    """Steps 4 and 5: each candidate in order starts, gets a claim, or is refused; the first refused gets a date.

    So does the first below each limit that keeps jobs out: for the pool's room, or for what the limit has.

    It stops where a candidate should take over the claim of a less important one, or others stand back for it: the
    round is then decided anew.
    """

    def __init__(self, layout: Layout, opened: RoundOpened, overtakes: Overtakes, back: StandingBack) -> None:
        """Nobody was looked at yet."""
        table, preemptor, heads, loose, before = layout
        self._table, self._preemptor, self._heads, self._loose = table, preemptor, heads, loose
        self._overtakes, self._back = overtakes, back
        self._candidates = candidates = back.in_order(opened.candidates)
        self._limited, self._edges = frozenset(opened.limited), frozenset(opened.edges)
        self._claimed = {held.claim.job: held.alive for held in table.held}
        self._refuser = Refuser(table)
        self._reserver, self._dates = Reserver(table), LimitDates(table)
        self._batch, self._pairs = Batch(table, candidates), Pairs(table, preemptor)
        self._guests, self._aged = Guests(table, preemptor), AgedPart(table)
        self._crowd = Crowd(table, self._refuser, self._reserver, preemptor)
        self._hanging = hanging(table)
        self._order, self._going = Order(candidates, before), Going(table, preemptor, back)

    def place_all(self) -> None:
        """Look at the candidates, until the round is full or has to be decided anew."""
        table, candidates = self._table, self._candidates
        started = {placement.job for placement in table.placements}
        waiting = _waiting(table, candidates, started)
        for seen, job in self._crowd.left(waiting, {*self._claimed, *self._limited}):
            if table.is_full or self._passes_unseen() or self._aged.is_over_for(job):
                table.unseen = len(candidates) - seen
                keep_dates(table, {candidate.job for candidate in candidates[seen:]})
                return
            if not self._goes_on_after(job):
                return

    def _passes_unseen(self) -> bool:
        """True when nobody may pass and who started last has equals that are not in view: the next round goes on."""
        table = self._table
        return not table.policy.backfill and bool(table.placements) and table.placements[-1].job in self._edges

    def _goes_on_after(self, job: Job) -> bool:
        """Look at one candidate; False where the round has to be decided anew."""
        table = self._table
        if job.id in self._claimed:
            table.refuse(job, waiting_reason(self._claimed[job.id]))
        elif job.id in self._limited:
            self._dates.consider(job)
        elif (kept := self._is_kept(job)) is not None:
            table.refuse(job, kept)
        else:
            reason = None if self._pairs.starts(job) else self._refuser.known(job) or self._start(job)
            if reason is not None and not self._is_made_way_for(job, reason):
                return self._refuse(job, reason)
            if self._back.is_open:
                return False
            self._aged.note(job)
        return True

    def _is_kept(self, job: Job) -> Reason | None:
        """Why the job does not start, whether there is room or not."""
        table = self._table
        reason = leases.waits_for_part(table.pool, job.id) or waits_for_hanging(table, job, self._hanging)
        return reason or self._heads.in_the_way(job)

    def _is_made_way_for(self, job: Job, reason: Reason) -> bool:
        """True when the refused job starts after all, since some that were about to go on wait on for it."""
        makes_way = self._going.make_way(job, reason)
        if makes_way:
            self._refuser.room_came_back()
        return makes_way

    def _refuse(self, job: Job, reason: Reason) -> bool:
        """The job waits on, and may get a date; False where others should stand back or give it their claim."""
        table = self._table
        if self._back.would_help(table, self._preemptor, job, reason, self._order):
            return False
        if self._back.goes_before_claims(table, self._overtakes, job, reason):
            return False
        table.refuse(job, reason)
        if reason.code in CAUSES and self._overtakes.would_help(table, job, is_limited=reason.code in LIMIT_CODES):
            return False
        if reason.code in ROOM_CODES:
            self._heads.refused(job)
            table.heads = self._heads.recorded()
        # Where several that compete have dates, equal jobs have one each; otherwise the first speaks for all of them.
        if self._refuser.remember(job, reason) or table.policy.backfill_depth > 1:
            self._give_date(job, reason)
        return True

    def _give_date(self, job: Job, reason: Reason) -> None:
        """For what the refused job lacks: room of the pool, or of a limit."""
        if reason.code in ROOM_CODES:
            is_loose = job.spec.service_class == ServiceClass.OPPORTUNISTIC
            self._dates.keep_for(job, self._loose.consider(job) if is_loose else self._reserver.consider(job))
        elif reason.code in LIMIT_CODES:
            self._dates.consider(job)

    def _start(self, job: Job) -> Reason | None:
        """The job starts or gets a claim (None), or the reason why neither is possible."""
        table, preemptor = self._table, self._preemptor
        passes = may_pass(table, job)
        if passes and self._starts_beside_reserved(job):
            return None
        base = table.room if passes or table.guarded is None else table.guarded
        room, guarded = self._loose.room_for(job, base), base is table.guarded
        found: Found | Reason | None = self._batch.found(job, room)
        no_room = self._refuser.no_room(job, room) if found is None else None
        if found is None and no_room is None:
            found = find_seats(table.seating, job, room)
        if found is None and table.pool.pool.cells:
            found = lower_in_place(table, job, room)
        if isinstance(found, Found):
            table.place(job, found.seats, found.amounts, guarded=guarded, backfilled=bool(table.reservations))
            return None
        if isinstance(found, Reason) and found.code == ReasonCode.LIMIT_KEPT:
            return found
        if self._guests.starts_with_one(job) or preemptor.make_room(job) or self._guests.starts_as_one(job):
            return None
        if preemptor.is_above_limits and isinstance(found, Reason):
            self._refuser.limited(job, found)
        return found if isinstance(found, Reason) else no_room or self._refuser.reason(job, room)

    def _starts_beside_reserved(self, job: Job) -> bool:
        """Who goes before dated jobs for its guarantee starts in what they leave, if it can.

        Of what one that starves counts on it takes nothing that others give back to it elsewhere.
        """
        table = self._table
        if table.guarded is None or not table.is_owed(job) or table.ends_before_reservations(job):
            return False
        if self._refuser.no_room(job, table.guarded) is None:
            found = find_seats(table.seating, job, table.guarded)
            if isinstance(found, Found):
                table.place(job, found.seats, found.amounts, guarded=True, backfilled=True)
                return True
        return keeps_from_all(table) and self._preemptor.make_room(job, sparing=True)


def _wait_for_movers(table: Table, opened: RoundOpened) -> None:
    """Nobody else starts meanwhile, and each is told so."""
    settled = {held.claim.job for held in table.held} | {placement.job for placement in table.placements}
    for _, job in _waiting(table, opened.candidates, settled):
        table.refuse(job, Reason(ReasonCode.LEASE_CHANGES))


def _waiting(table: Table, candidates: Sequence[Candidate], started: set[JobId]) -> Iterator[tuple[int, Job]]:
    """The candidates that still wait, each with how many come before it."""
    jobs = table.state.kept.jobs
    for seen, candidate in enumerate(candidates):
        job = jobs.get(candidate.job)
        if job is not None and job.state is JobState.WAITING and job.id not in started:
            yield seen, job
