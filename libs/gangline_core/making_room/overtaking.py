"""A more important job takes over room that is being cleared for a less important one.

The victims are stopping already, or gone, so nobody new has to go: the room they leave is planned for the more
important job, and the other waits again. More important is who has the higher priority, and whoever would have the
other sent away as soon as it worked (see `sent_at_once`): it would start, and go at the next event. A claim is never
taken over by an equal, nor by whom its job had evicted, nor unless the new job is then placed or has a claim itself.
Nor is it taken from a job within its group's guarantee that is of the guaranteed class, or of another group than one
that borrows and from which it would be reclaimed at once.

So is quota: below a limit that keeps the more important job out, the claims of less important ones are its.

Whoever waited for a limit alone has its own room elsewhere: it keeps that, and its claim, where the limit will have
enough for both and nobody else has to go.

Source: Zhao et al., "HiveD", OSDI 2020, and its scheduler: a preemptor that meets a lower one cancels it completely.
"""

from collections.abc import Collection

from gangline_core.facts import Claim, Eviction, Placement
from gangline_core.groups import holders
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.limits.amounts import amount_of, task_amounts
from gangline_core.limits.quota import JOBS
from gangline_core.limits.sheltered import is_lent_whole
from gangline_core.making_room.cheap_looks import Lowest
from gangline_core.making_room.claims import claimed_amounts, far_victims, honour_claims
from gangline_core.making_room.could_go import WhoLives
from gangline_core.making_room.losses import effective_priority
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.sent_at_once import might_be_sent, owing, takes_whole, would_be_sent
from gangline_core.scoring.ageing import is_starving
from gangline_core.seating import Found, find_seats
from gangline_core.spec import ServiceClass, may_take
from gangline_core.state import State
from gangline_core.table import Held, Table

OVERTAKES_MAX = 4
"""Jobs of one round that may take over claims, since each has the round decided anew."""
TRIALS_MAX = 8
"""Jobs of one round which are tried without others' claims of that round."""


class Overtakes:
    """Which claims are taken over in one round; kept while the round is decided again and again."""

    def __init__(self) -> None:
        """None yet."""
        self.heirs: set[JobId] = set()
        """Jobs that take over the room of these claims."""
        self._taken: dict[JobId, set[JobId]] = {}
        """For whom which claims are taken over, in the order in which they were."""
        self._ceding: dict[JobId, set[JobId]] = {}
        """For whom which claims are kept without the room of their victims."""
        self._tried: set[JobId] = set()
        self._is_open = False
        self._lives = WhoLives()
        self._lowest, self._least_new = Lowest(), Lowest()
        """The least important who have claims of earlier rounds, and of this one."""
        self._trials = 0

    @property
    def overtaken(self) -> frozenset[JobId]:
        """Jobs whose claims are dropped."""
        return frozenset().union(*self._taken.values())

    @property
    def ceding(self) -> frozenset[JobId]:
        """Jobs whose claims are kept, and whose victims' room goes to an heir."""
        return frozenset().union(*self._ceding.values()) - self.overtaken

    def standing_there(self, state: State, pool: str) -> frozenset[JobId]:
        """Paused jobs where these claims' room is: they go on after the heirs, or would take what was cleared."""
        claims = [state.kept.claims[name] for name in self.overtaken if name in state.kept.claims]
        nodes = {place.node for claim in claims for place in claim.placement.tasks}
        paused = state.paused.get(pool, {}) if nodes else ()
        jobs = (state.kept.jobs[name] for name in paused)
        return frozenset(job.id for job in jobs if any(task.node in nodes for task in state.tasks_of(job)))

    def would_help(self, table: Table, job: Job, *, is_limited: bool = False) -> bool:
        """True when the job should take over claims; they are among the `overtaken` then.

        When a limit keeps it out (`is_limited`) only claims below that limit are its quota: others would lose theirs
        and keep nothing from anybody.
        """
        if not table.state.kept.claims or job.id in self._tried or len(self._tried) >= OVERTAKES_MAX:
            return False
        known = _known(table)
        is_any = self._lowest.is_below(table, job, [held.claim.job for held in known])
        weaker = _weaker(table, job, known) if is_any else []
        if is_limited and weaker:
            weaker = _below_its_limits(table, job, weaker, known)
        if not weaker or not self._helps(table, job, {claim.job for claim in weaker}):
            return False
        needed = {claim.job for claim in weaker}
        for claim in weaker:
            # Those of the most important jobs are given back first; where others that stop leave enough, all are.
            if self._helps(table, job, needed - {claim.job}):
                needed.discard(claim.job)
        ceding = {held.claim.job for held in table.held if held.claim.job in needed and _waits_for_a_limit(table, held)}
        if not ceding or not self._helps(table, job, needed - ceding, ceding):
            ceding = set()
        self._tried.add(job.id)
        self.heirs.add(job.id)
        self._taken[job.id] = needed - ceding
        self._ceding[job.id] = ceding
        self._is_open = True
        return True

    def would_lose(self, table: Table, job: Job) -> frozenset[JobId]:
        """Weaker jobs with claims of this very round instead of which the job would start, or have room cleared itself.

        It would take these claims over at the next look, and others had gone for nothing.
        """
        fresh = [claim.job for claim in table.claims]
        if self._trials >= TRIALS_MAX or not self._least_new.is_below(table, job, fresh):
            return frozenset()
        held = [one for one in table.held if one.alive and one.claim.job in set(fresh)]
        weaker = {claim.job for claim in _weaker(table, job, held)}
        self._trials += bool(weaker)
        return frozenset(weaker) if weaker and self._helps(table, job, weaker) else frozenset()

    def is_settled(self, table: Table) -> bool:
        """True when the round stands as it was decided; else it is to be decided anew."""
        if self._is_open:
            self._is_open = False
            return False
        has = {*(placement.job for placement in table.placements), *(claim.job for claim in table.claims)}
        # It may come out differently in the whole round than alone: then nothing is taken over for that job, and what
        # was taken over for others before it is looked at again.
        in_vain = next((heir for heir in reversed(self._taken) if heir not in has), None)
        if in_vain is None:
            return True
        self.heirs.discard(in_vain)
        del self._taken[in_vain], self._ceding[in_vain]
        return False

    def _helps(self, table: Table, job: Job, overtaken: set[JobId], ceding: Collection[JobId] = ()) -> bool:
        """True when the job finds room without these claims, beside what this round decided so far.

        Those that are `ceding` must be able to start as well, and nobody goes who might then want their room.
        """
        trial = Table(table.state, table.pool.pool.name, table.now)
        honour_claims(trial, {*overtaken, *table.claims_dropped}, {*ceding, *self.ceding})
        fresh = {claim.job for claim in table.claims}
        for held in table.held:
            if held.claim.job in fresh - overtaken:
                trial.hold(held.claim, held.alive, {})
        trial.shrinks = [one for one in table.shrinks if one.beneficiary not in overtaken]
        # Those who start on their claims come first in a round, and start here as well unless they are overtaken.
        for place, _ in table.placed[sum(len(one.tasks) for one in _ready(table)) :]:
            trial.room.take(place)
        found = find_seats(trial.seating, job, trial.room)
        if isinstance(found, Found):
            trial.count(job, found.amounts)
        elif not self._clears(trial, job, [one for one in table.evictions if one.beneficiary not in overtaken]):
            return False
        return not ceding or (not trial.evictions and all(_may_start_then(trial, one) for one in ceding))

    def _clears(self, trial: Table, job: Job, going: list[Eviction]) -> bool:
        """True when room is cleared for the job without those that go for others."""
        preemptor = Preemptor(trial, {job.id}, self._lives)
        for one in going:
            preemptor.spare(one.job)
        return preemptor.make_room(job)


def _ready(table: Table) -> list[Placement]:
    """Who starts in this round on a claim of an earlier one."""
    claims, dropped = table.state.kept.claims, table.claims_dropped
    return [one for one in table.placements if one.job in claims and one.job not in dropped]


def _known(table: Table) -> list[Held]:
    """Claims made in earlier rounds, those included on which somebody starts in this one."""
    fresh = {claim.job for claim in table.claims}
    ready = (Held(claim=table.state.kept.claims[one.job], alive=()) for one in _ready(table))
    return [*(held for held in table.held if held.claim.job not in fresh), *ready]


def _weaker(table: Table, job: Job, known: list[Held]) -> list[Claim]:
    """Those claims that waiting jobs have which are weaker than this one, those of the most important ones first."""
    if not table.policy.preemption or job.spec.service_class == ServiceClass.OPPORTUNISTIC:
        return []
    pool, jobs, owed_by = table.pool.pool, table.state.kept.jobs, owing(table, job)
    found = []
    for held in known:
        other = jobs[held.claim.job]
        if other.state != JobState.WAITING or not _is_weaker(table, job, held, owed_by):
            continue
        if not _keeps(table, held, job, other):
            found.append(held.claim)
    # What most are left out for is looked at first.
    return sorted(found, key=lambda claim: (-effective_priority(pool, jobs[claim.job].spec), claim.made_ms, claim.job))


def _is_weaker(table: Table, job: Job, held: Held, owed_by: frozenset[str]) -> bool:
    """True for one of lower priority that waits for victims and not for long, and for whoever this one sends away."""
    pool, other = table.pool.pool, table.state.kept.jobs[held.claim.job]
    is_lower = effective_priority(pool, other.spec) < effective_priority(pool, job.spec)
    if is_lower and held.alive and not is_starving(table.state, other, table.policy, table.now):
        return True
    if not (
        may_take(job.spec) and might_be_sent(table, job, other, owed_by) and would_be_sent(table, job, other, owed_by)
    ):
        return False
    # Nobody is sent away of whose group less would be left than what it is guaranteed.
    claimed = claimed_amounts(table, held.claim, held.alive)
    whole, group = takes_whole(table, job), job.spec.group
    if whole and is_lent_whole(table.state, other, claimed, beneficiary=group):
        return True
    return table.ledger.over_guarantee(other, claimed, beneficiary=group, whole=whole)


def _below_its_limits(table: Table, job: Job, claims: list[Claim], known: list[Held]) -> list[Claim]:
    """Those of jobs that count for a limit which keeps this one out; nobody's where all of them are too little.

    What a claim gives back at most is what it takes and what its victims use.
    """
    jobs, held = table.state.kept.jobs, {one.claim.job: one for one in known}
    owners = {claim.job: holders(jobs[claim.job].spec.group, jobs[claim.job].spec.user) for claim in claims}
    full: set[str] = set()
    for rung, dimension, used, needed in table.ledger.broken(job, table.seating.least(job).amounts):
        full.add(rung.holder)
        below = [claim.job for claim in claims if rung.holder in owners[claim.job]]
        most = sum(_gives_most(table, held[name], dimension) for name in below)
        if used + needed - most > amount_of(rung.limit, dimension):
            return []
    return [claim for claim in claims if not full.isdisjoint(owners[claim.job])]


def _gives_most(table: Table, held: Held, dimension: str) -> int:
    """The most of a dimension that limits have more when nobody keeps this claim."""
    tasks = (table.state.kept.tasks[name] for name in held.alive)
    going = sum(1 if dimension == JOBS else amount_of(task_amounts(task), dimension) for task in tasks)
    return going + amount_of(claimed_amounts(table, held.claim, held.alive), dimension)


def _keeps(table: Table, held: Held, job: Job, other: Job) -> bool:
    """True when the other keeps its claim: it had the job evicted, or would reclaim from it what it is owed."""
    if other.id in job.yielded_to:
        return True
    if other.spec.service_class != ServiceClass.GUARANTEED and (
        other.spec.group == job.spec.group or table.is_owed(job)
    ):
        return False
    # The ledger counts the claim already; what is asked is whether it stays within the guarantee, once.
    claimed = claimed_amounts(table, held.claim, held.alive)
    table.ledger.give(other, claimed)
    is_owed = table.is_owed(other)
    table.ledger.take(other, claimed)
    return is_owed


def _waits_for_a_limit(table: Table, held: Held) -> bool:
    """True when all who go for the claim stand where its job does not go."""
    return len(far_victims(table.state, held.claim, held.alive)) == len(held.alive)


def _may_start_then(table: Table, name: JobId) -> bool:
    """True when no limit will be in the way of a claim's job once all who were told to go are gone."""
    held = next((held for held in table.held if held.claim.job == name), None)
    if held is None:
        return True
    job, amounts, after = table.state.kept.jobs[name], claimed_amounts(table, held.claim, held.alive), table.after
    after.give(job, amounts)
    broken = next(after.broken(job, amounts), None)
    after.take(job, amounts)
    return broken is None
