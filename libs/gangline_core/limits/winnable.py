"""How much a round could win back below a limit: the most that shrinking and evicting may free for one job.

It is an upper bound by the rules of preemption, without looking at nodes. A job that a limit stops enters the round
when this much would let it pass; whether it comes about, and without breaking a guarantee, the round decides.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from gangline_core.cluster import Pool
from gangline_core.foresight.forecast import held_by
from gangline_core.groups import ROOT, ancestors, holders, user_of
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState
from gangline_core.limits.amounts import amount_of, task_amounts
from gangline_core.limits.owed_models import owed_models
from gangline_core.limits.quota import JOBS, Ledger
from gangline_core.making_room.losses import effective_priority, is_sealed
from gangline_core.making_room.service_order import by_service, orders_by_service
from gangline_core.making_room.yielding import yields_in
from gangline_core.pauses.pausing import is_gone, slice_ends_ms
from gangline_core.scoring.yield_queue import has_yielding
from gangline_core.spec import ServiceClass, may_take, smallest_size
from gangline_core.state import State, count, request_amounts

_LOWEST = -(10**18)
"""Priority of work that any other may push away."""


class _Branches(NamedTuple):
    """What could be won below a holder."""

    parts: dict[str, tuple[list[str], int]]
    """By branch right below the holder: its groups, and how much by those of other branches."""
    total: int


class Winnable:
    """What can be won back in one pool's round; computed when somebody asks, once."""

    def __init__(self, state: State, pool: str, ledger: Ledger, now: int) -> None:
        """On the frozen state."""
        self._state = state
        self._pool = state.kept.pools[pool]
        self._ledger = ledger
        self._now = now
        self._surplus: dict[str, dict[str, int]] | None = None
        self._members: dict[tuple[str, bool], list[tuple[str, int, dict[str, int]]]] = {}
        """Per group what possible victims in it use, by user and priority, and whether the jobs themselves count."""
        self.is_lasting = True
        """What was found follows from who lives where alone; False once protected jobs were seen, whose time ends."""
        self._branches: dict[tuple[str, str, int], _Branches] = {}
        """Per holder, dimension and priority."""
        self._yielded: dict[tuple[int, str, str], int] = {}
        """What had its share and makes way, by priority of whom it makes way for, holder and dimension."""
        self._has_guarantees = any(group.guaranteed for group in state.kept.groups.values())
        self._borrowed: dict[tuple[str, str], dict[str, int]] = {}
        """By group and dimension."""
        self._children: dict[str, list[str]] | None = None
        self._going: list[tuple[int, TaskId, tuple[str, ...], dict[str, int]]] | None = None
        """Who goes for claims: the priority of the claim's job, the task, whom both count for, and what comes back."""
        self._taken_over: dict[tuple[int, str, str], int] = {}
        """What could be taken over of that, by priority, holder and dimension."""
        self._turns: dict[tuple[int, str, str], int] = {}
        """What those use whose turn is over, by the same."""

    def amount(self, job: Job, holder: str, dimension: str, amounts: Mapping[str, int]) -> int:
        """The most of a dimension that could be freed below the holder for this job, which asks for `amounts`."""
        if not may_take(job.spec):
            return 0
        freed = 0
        if self._pool.policy.shrink:
            if self._surplus is None:
                self._surplus = elastic_surplus(self._state, self._pool.pool.name)
            freed += self._surplus.get(holder, {}).get(dimension, 0)
        if self._pool.policy.preemption:
            freed += self._of_lower_priority(job, holder, dimension)
            if self._state.kept.claims and job.spec.service_class != ServiceClass.OPPORTUNISTIC:
                freed += self._cleared(effective_priority(self._pool.pool, job.spec), holder, dimension)
            borrowed = self._borrowed_beside(job, holder, dimension)
            if borrowed and self._is_owed(job, amounts):
                freed += borrowed
            if job.spec.checkpoints and has_yielding(self._pool.policy):
                freed += self._made_way(effective_priority(self._pool.pool, job.spec), holder, dimension)
            if orders_by_service(self._pool.policy) or self._pool.policy.time_slice_s:
                freed += self._turned(effective_priority(self._pool.pool, job.spec), holder, dimension)
        return freed

    def _turned(self, priority: int, holder: str, dimension: str) -> int:
        """What those below the holder use that are no less important and make way all the same: it is others' turn."""
        self.is_lasting = False
        key = (priority, holder, dimension)
        if key not in self._turns:
            below = (one for one in self._had_turn if holder in holders(one.spec.group, one.spec.user))
            own = (one for one in below if effective_priority(self._pool.pool, one.spec) >= priority)
            self._turns[key] = sum(held_by(self._state, one).folded.get(dimension, 0) for one in own)
        return self._turns[key]

    @cached_property
    def _had_turn(self) -> list[Job]:
        """Those who have sunk below others by service, whoever asks, or had their slice of time."""
        state, policy, now = self._state, self._pool.policy, self._now
        live = [state.kept.jobs[name] for name in state.live.get(self._pool.pool.name, {})]
        if orders_by_service(policy):
            is_any = policy.oldest_preempts or policy.sinks_last
            standing = by_service(state, self._pool, now).standing
            live = [state.kept.jobs[one.job] for one in standing if is_any or one.place[0]]
        else:
            live = [job for job in live if job.state == JobState.RUNNING and slice_ends_ms(job, policy) <= now]
        return [
            job for job in live if job.state != JobState.STOPPING and job.spec.preemptible and not is_sealed(job, now)
        ]

    def _cleared(self, priority: int, holder: str, dimension: str) -> int:
        """What goes below the holder for jobs of lower priority below it: a more important one may take that over."""
        key = (priority, holder, dimension)
        if key not in self._taken_over:
            if self._going is None:
                self._going = list(_going(self._state, self._pool.pool))
            # Several claims may wait for one task, which gives its room once.
            given = {task: back for theirs, task, both, back in self._going if theirs < priority and holder in both}
            self._taken_over[key] = sum(amount_of(amounts, dimension) for amounts in given.values())
        return self._taken_over[key]

    def _is_owed(self, job: Job, amounts: Mapping[str, int]) -> bool:
        """True within a guarantee, if only one of a model that the job may be on."""
        if self._ledger.within_guarantee(job, amounts):
            return True
        return bool(owed_models(self._state, self._ledger, job, amounts))

    def _made_way(self, priority: int, holder: str, dimension: str) -> int:
        """What those below the holder use that had their share: they make way for such a job in a lower queue."""
        known = self._yielded.get((priority, holder, dimension))
        if known is not None:
            return known
        state, pool, found = self._state, self._pool.pool, 0
        for job_id in state.live_index.checkpoints.get(pool.name, {}):
            job = state.kept.jobs[job_id]
            if holder not in holders(job.spec.group, job.spec.user) or effective_priority(pool, job.spec) > priority:
                continue
            # Time alone has them make way.
            self.is_lasting = False
            if yields_in(state, job, self._pool.policy, self._now):
                found += held_by(state, job).folded.get(dimension, 0)
        self._yielded[priority, holder, dimension] = found
        return found

    def _of_lower_priority(self, job: Job, holder: str, dimension: str) -> int:
        """What preemptible jobs of lower priority below the holder use, less what their groups are owed beside it."""
        key = (holder, dimension, effective_priority(self._pool.pool, job.spec))
        known = self._branches.get(key)
        if known is None:
            known = self._branches[key] = self._by_branch(*key)
        own = known.parts.get(_branch(job.spec.group, user_of(holder)[0]))
        if own is None or not self._has_guarantees:
            return known.total
        groups, amount = own
        return known.total - amount + sum(self._spared(group, key, beneficiary=job.spec.group) for group in groups)

    def _by_branch(self, holder: str, dimension: str, priority: int) -> "_Branches":
        """The same for whoever comes from none of these branches."""
        above = user_of(holder)[0]
        parts: dict[str, tuple[list[str], int]] = {}
        for group in self._state.live_index.groups_below(self._pool.pool.name, holder):
            groups, amount = parts.get(branch := _branch(group, above), ([], 0))
            amount += self._spared(group, (holder, dimension, priority), beneficiary=above)
            parts[branch] = ([*groups, group], amount)
        return _Branches(parts, sum(amount for _, amount in parts.values()))

    def _spared(self, group: str, key: tuple[str, str, int], *, beneficiary: str) -> int:
        """The same of one group: a group is never taken below its guarantee, but where the beneficiary shares it."""
        holder, dimension, priority = key
        amount = self._below(group, user_of(holder)[1], dimension, priority)
        if not amount or not self._has_guarantees:
            return amount
        return min(amount, self._ledger.spare(group, dimension, beneficiary=beneficiary, whole=True))

    def _below(self, group: str, user: str, dimension: str, priority: int) -> int:
        """What possible victims of a group, of one user if that is said, below a priority use of a dimension."""
        return sum(
            used.get(dimension, 0)
            for own, theirs, used in self._of_group(group, is_counted=dimension == JOBS)
            if theirs < priority and (not user or own == user)
        )

    def _of_group(self, group: str, *, is_counted: bool) -> list[tuple[str, int, dict[str, int]]]:
        """What possible victims of a group use, by user and priority.

        Those that hold nothing are among them only where jobs themselves are counted.
        """
        known = self._members.get((group, is_counted))
        if known is not None:
            return known
        index, pool = self._state.live_index, self._pool.pool.name
        found: dict[tuple[str, int], dict[str, int]] = {}
        for job_id in index.groups.get(pool, {}).get(group, {}) if is_counted else index.who_hold(pool, group):
            job = self._state.kept.jobs[job_id]
            spec = job.spec
            self.is_lasting &= not spec.protected_s
            if job.state == JobState.STOPPING or not spec.preemptible or is_sealed(job, self._now):
                continue
            is_loose = job.service_class == ServiceClass.OPPORTUNISTIC
            priority = _LOWEST if is_loose else effective_priority(self._pool.pool, spec)
            used = found.setdefault((spec.user, priority), {})
            for dimension, amount in held_by(self._state, job).folded.items():
                used[dimension] = used.get(dimension, 0) + amount
        known = self._members[group, is_counted] = [(user, priority, used) for (user, priority), used in found.items()]
        return known

    def _borrowed_beside(self, job: Job, holder: str, dimension: str) -> int:
        """What groups below the holder use beyond their guarantees that stand beside the job's way down from it."""
        own, found = ancestors(job.spec.group), 0
        if holder not in own:
            return 0
        way = own[: own.index(holder) + 1]
        for path in way[1:] or way:
            borrowed = self._borrowed_below(path, dimension)
            found += sum(amount for child, amount in borrowed.items() if child not in own)
        return found

    def _borrowed_below(self, path: str, dimension: str) -> dict[str, int]:
        """What each group right below this one uses beyond its guarantee, where that is anything."""
        borrowed = self._borrowed.get((path, dimension))
        if borrowed is None:
            found = ((child, self._ledger.borrowed(child, dimension)) for child in self._right_below(path))
            borrowed = self._borrowed[path, dimension] = {child: amount for child, amount in found if amount}
        return borrowed

    def _right_below(self, holder: str) -> list[str]:
        if self._children is None:
            self._children = {}
            for path in self._state.kept.groups:
                if path != ROOT:
                    self._children.setdefault(path.rpartition("/")[0], []).append(path)
        return self._children.get(holder, [])


def _going(state: State, pool: Pool) -> Iterator[tuple[int, TaskId, tuple[str, ...], dict[str, int]]]:
    """Tasks that go for claims of waiting jobs; with the first of a job that stops the job itself is counted."""
    jobs, tasks, counted = state.kept.jobs, state.kept.tasks, set[tuple[JobId, JobId]]()
    for claim in state.kept.claims.values():
        job = jobs.get(claim.job)
        if job is None or job.spec.pool != pool.name or job.state != JobState.WAITING:
            continue
        for name in claim.victims:
            victim = jobs.get(tasks[name].job) if name in tasks else None
            if victim is None or is_gone(state, name):
                continue
            amounts, own = task_amounts(tasks[name]), holders(victim.spec.group, victim.spec.user)
            both = tuple(holder for holder in holders(job.spec.group, job.spec.user) if holder in own)
            if victim.state == JobState.STOPPING and (claim.job, victim.id) not in counted:
                counted.add((claim.job, victim.id))
                amounts[JOBS] = 1
            yield effective_priority(pool, job.spec), name, both, amounts


def elastic_surplus(state: State, pool: str) -> dict[str, dict[str, int]]:
    """What running elastic jobs of the pool hold above their smallest sizes, per holder and dimension."""
    surplus: dict[str, dict[str, int]] = {}
    sorts = state.live_sorts.get(pool, {})
    for job_id in (job_id for sort, alike in sorts.items() if sort.elastic for job_id in alike):
        job = state.kept.jobs[job_id]
        if job.state not in (JobState.RUNNING, JobState.RESIZING):
            continue
        for role in job.spec.roles:
            spare = max(0, job.sizes.get(role.name, 0) - smallest_size(role))
            for dimension, amount in request_amounts(role.resources).items():
                for holder in holders(job.spec.group, job.spec.user):
                    count(surplus.setdefault(holder, {}), dimension, spare * amount)
    return surplus


def _branch(group: str, holder: str) -> str:
    """The group right below the holder on the way down to this one; the holder itself where it is that."""
    if group == holder:
        return group
    end = group.find("/", len(holder) + 1 if holder else 0)
    return group if end < 0 else group[:end]
