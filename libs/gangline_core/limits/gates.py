"""Who may be considered in a round, and why the others may not: step 2 of the cycle.

Holds never reach the gates (a held job does not wait), and each job is judged alone against present usage: what jobs of
the same round take from each other is counted when they are placed. Equal asks (one shape) are judged once.

A limit keeps a job out only when the round itself could not make room below it. So a job enters although its group is
full when elastic jobs below that limit can shrink, when jobs of lower priority can be pushed away or go already for a
less important one (see `making_room.overtaking`), or when it is within its own guarantee and others borrowed from it.
"""

from collections.abc import Collection, Iterator, Mapping
from operator import itemgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.door.terms import NEVER, aside, deadline_reason, terms_reason
from gangline_core.facts import KeptOut
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.accounting import Spent, budget_reason, spent
from gangline_core.limits.broken import limit_reason
from gangline_core.limits.gate_memo import GateMemo, Left
from gangline_core.limits.quota import JOBS, NO_END, Ledger, job_amounts, minimum_sizes
from gangline_core.limits.rungs import user_rung
from gangline_core.limits.winnable import Winnable
from gangline_core.reasons import LIMIT_CODES, Reason, ReasonCode
from gangline_core.scoring import columns as c
from gangline_core.scoring.columns import Columns, Ints
from gangline_core.scoring.waiting import Waiting
from gangline_core.spec import ServiceClass, costs_gpu_time, has_terms
from gangline_core.state import State

_BY_COLUMN = {
    "gpu_milli": (0, c.LEAST_GPU_MILLI),
    "cpu_milli": (1, c.LEAST_CPU_MILLI),
    "memory_mib": (2, c.LEAST_MEMORY_MIB),
}
"""Dimensions of which the columns know what a job asks for at least."""
GATE_CODES = frozenset(
    {
        ReasonCode.DEPENDENCY,
        ReasonCode.NOT_BEFORE,
        ReasonCode.GROUP_LIMIT,
        ReasonCode.USER_LIMIT,
        ReasonCode.BORROW_LIMIT,
        ReasonCode.NOT_LENT,
        ReasonCode.BUDGET_SHORT,
        ReasonCode.SINGLETON,
        ReasonCode.DEADLINE,
        ReasonCode.BUDGET_EXHAUSTED,
    }
)
"""Reasons that the gates give; recorded ones are over when the gates no longer give them."""
FRONT_MAX = 256
"""Jobs kept out by limits that one round looks at to give them dates."""


class Verdicts(Struct, frozen=True):
    """What became of every waiting job of a pool."""

    may: list[Job]
    kept_out: dict[JobId, Reason]
    given_up: dict[JobId, Reason]


class Sieve:
    """Every waiting job of a pool, judged: most of them by whole columns, the doubtful ones by shape or one by one."""

    def __init__(self, state: State, pool: str, now: int) -> None:
        """Judge them on the frozen state."""
        self._state, self._now = state, now
        self._pool = state.kept.pools[pool]
        self.columns = state.columns.get(pool) or Columns()
        self._slots = self.columns.slots()
        self._ids = self.columns.field(self._slots, c.ID)
        self._reasons: list[Reason] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._gate = Gate(state, pool, now)
        self._verdict = np.full(len(self._slots), -1, dtype=np.int64)
        """Per job the number of the reason that keeps it out; -1 when it may enter."""
        if len(self._slots):
            self._judge()
        self._never = np.array([reason.code in NEVER for reason in self._reasons] + [False], dtype=np.bool_)

    def may(self, front: Collection[JobId] = ()) -> Ints:
        """Rows of the jobs that may enter, by job id, and of those `front`."""
        if not self._reasons:
            return self._slots
        chosen = self._verdict < 0
        return self._slots[chosen | np.isin(self._ids, sorted(front)) if front else chosen]

    def foremost(self) -> frozenset[JobId]:
        """Below each limit that keeps jobs out the one that stands in front: starving ones by age, then by priority.

        Opportunistic jobs have a front of their own, since others need not wait for them. Who asks for more than the
        limit itself has no date whoever ends, and stands in nobody's way.
        """
        limited = np.array([reason.code in LIMIT_CODES for reason in self._reasons] + [False], dtype=np.bool_)
        kept_out = np.flatnonzero(limited[self._verdict])
        if not len(kept_out):
            return frozenset()
        shapes = self.columns.field(self._slots[kept_out], c.SHAPE)
        in_order = self._by_rank(kept_out)
        _, first = np.unique(shapes[in_order], return_index=True)
        rows = in_order[np.sort(first)]
        slots, ids, stopped = self._slots[kept_out[rows]], self._ids[kept_out[rows]].tolist(), self._gate.stopped
        loose = (self.columns.field(slots, c.CLASS) == c.CLASS_RANK[ServiceClass.OPPORTUNISTIC]).tolist()
        front: dict[tuple[str, bool], JobId] = {}
        told = [self._reasons[number] for number in self._verdict[kept_out[rows]].tolist()]
        for job, shape, is_loose, reason in zip(ids, shapes[rows].tolist(), loose, told, strict=True):
            key = (stopped[shape], is_loose)
            if key not in front and not _is_beyond(reason):
                front[key] = JobId(job)
                if len(front) == FRONT_MAX:
                    break
        return frozenset(front.values())

    def _by_rank(self, places: Ints) -> Ints:
        """These waiting jobs, who goes before whom below a limit."""
        rows = self._slots[places]
        waiting = Waiting(self._state, self._pool, (self.columns, rows), now=self._now)
        priority = waiting.field(c.PRIORITY) + waiting.per_level(lambda level: self._pool.pool.levels.get(level, 0))
        key = np.where(waiting.starving, waiting.since, -priority)
        return np.lexsort((waiting.ids, waiting.since, waiting.yield_queue, key, ~waiting.starving))

    def changed(self) -> list[KeptOut]:
        """Who is kept out for another reason than the recorded one, equal reasons together, by their first job."""
        if not self._reasons:
            return []
        out = (self._verdict >= 0) & ~self._never[self._verdict]
        causes = np.array([c.cause_of(reason) for reason in self._reasons] + [0], dtype=np.int64)
        return self._grouped(out & (causes[self._verdict] != self.columns.field(self._slots, c.CAUSE)))

    def given_up(self) -> list[KeptOut]:
        """Who can never run any more, held and suspended ones last."""
        found = self._grouped((self._verdict >= 0) & self._never[self._verdict]) if self._reasons else []
        held = aside(self._state, self._pool.pool.name)
        late = [
            (job, reason)
            for job, spec, had in held
            if (reason := deadline_reason(spec, self._now, had=had)) is not None
        ]
        return [*found, *(KeptOut(reason=reason, jobs=(job,)) for job, reason in sorted(late, key=itemgetter(0)))]

    def verdicts(self) -> Verdicts:
        """All of it, job by job."""
        jobs, kept_out, given_up = self._state.kept.jobs, dict[JobId, Reason](), dict[JobId, Reason]()
        may: list[Job] = []
        for job, number in zip(self._ids.tolist(), self._verdict.tolist(), strict=True):
            if number < 0:
                may.append(jobs[JobId(job)])
            else:
                (given_up if self._never[number] else kept_out)[JobId(job)] = self._reasons[number]
        return Verdicts(may=may, kept_out=kept_out, given_up=given_up)

    # --- inside -----------------------------------------------------------------------------------------

    def _judge(self) -> None:
        columns, slots, jobs = self.columns, self._slots, self._state.kept.jobs
        alone = columns.field(slots, c.HAS_TERMS) > 0
        if self._state.kept.claims:
            alone |= np.isin(self._ids, sorted(self._state.kept.claims))
        for k in np.flatnonzero(alone).tolist():
            self._verdict[k] = self._number(self._gate.reason(jobs[JobId(int(self._ids[k]))]))
        doubtful = np.flatnonzero(self._gate.doubtful(columns, slots) & ~alone)
        if not len(doubtful):
            return
        _, first, which = np.unique(columns.field(slots[doubtful], c.SHAPE), return_index=True, return_inverse=True)
        # Shapes that fare the same mostly share one reason, which is then compared by its number and not in words.
        reasons = self._gate.by_shape(columns, slots[doubtful[first]])
        numbers = {key: self._number(reason) for key, reason in {id(reason): reason for reason in reasons}.items()}
        found = np.array([numbers[id(reason)] for reason in reasons], dtype=np.int64)
        self._verdict[doubtful] = found[which]

    def _number(self, reason: Reason | None) -> int:
        """Equal reasons have one number."""
        if reason is None:
            return -1
        key = (reason.code, *sorted(reason.numbers.items()))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._reasons)
            self._reasons.append(reason)
        return number

    def _grouped(self, chosen: NDArray[np.bool_]) -> list[KeptOut]:
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return []
        numbers = self._verdict[rows]
        by_number = np.argsort(numbers, kind="stable")
        _, starts = np.unique(numbers[by_number], return_index=True)
        parts = [self._ids[rows[part]].tolist() for part in np.split(by_number, starts[1:])]
        reasons = [self._reasons[int(numbers[by_number[start]])] for start in starts]
        groups = sorted(zip(parts, reasons, strict=True), key=lambda entry: int(entry[0][0]))
        return [KeptOut(reason=reason, jobs=tuple(jobs)) for jobs, reason in groups]


def judge(state: State, pool: str, now: int) -> Verdicts:
    """Every waiting job of the pool, by id: it may enter, is kept out, or can never run any more."""
    return Sieve(state, pool, now).verdicts()


class Gate:
    """One round's gates; remembers the verdict on each shape and group."""

    def __init__(self, state: State, pool: str, now: int) -> None:
        """Gates for jobs of this pool on the frozen state."""
        self._state = state
        self._now = now
        self._ledger = Ledger(state, now)
        self._limits: dict[int, Reason | None] = {}
        self._memo = _memo_of(state, pool)
        self.stopped: dict[int, str] = {}
        """Per shape that a limit keeps out, the holder whose limit it is."""
        self._above: dict[str, dict[str, int]] = {}
        """What is left of each limited dimension from a group on upwards, as far as it is not remembered."""
        self._asked: dict[int, dict[str, int]] = {}
        self._budgets: dict[str, Reason | None] = {}
        self._spent: Spent | None = None
        self._winnable = Winnable(state, pool, self._ledger, now)

    def reason(self, job: Job) -> Reason | None:
        """Why the job may not enter now; None when it may."""
        if has_terms(job.spec) and (reason := terms_reason(self._state, job, self._now)) is not None:
            return reason
        if self._state.kept.exhausted and (reason := self._budget_reason(job)) is not None:
            return reason
        if job.id in self._state.kept.claims:
            # Room is already being cleared for it; its victims still count, but only until they are gone.
            return None
        shape = self._state.shapes[job.id]
        if shape not in self._limits:
            self._limits[shape] = self._limit_reason(job)
        return self._limits[shape]

    def by_shape(self, columns: Columns, slots: Ints) -> list[Reason | None]:
        """The same for these rows, of as many shapes, none of which has terms or a claim."""
        jobs, groups, memo = self._state.kept.jobs, self._state.kept.groups, self._memo
        ids = columns.field(slots, c.ID).tolist()
        if self._state.kept.exhausted:
            return [self.reason(jobs[JobId(job)]) for job in ids]
        shapes, members = columns.field(slots, c.SHAPE).tolist(), columns.field(slots, c.HOLDER).tolist()
        stamp_of = {member: memo.stamp(columns.members[member], groups) for member in dict.fromkeys(members)}
        stamps = [stamp_of[member] for member in members]
        verdicts = memo.of_shapes(shapes, stamps)
        for k in (k for k, verdict in enumerate(verdicts) if verdict is None):
            verdicts[k] = verdict = (self.reason(jobs[JobId(ids[k])]), self.stopped.get(shapes[k], ""))
            if self._winnable.is_lasting:
                memo.keep_shape(shapes[k], stamps[k], verdict)
        known = [verdict for verdict in verdicts if verdict is not None]
        self.stopped.update({shape: own[1] for shape, own in zip(shapes, known, strict=True) if own[0] is not None})
        return [reason for reason, _ in known]

    def reasons(self, job: Job) -> Iterator[Reason]:
        """Everything that keeps the job out, not only the first."""
        if has_terms(job.spec) and (reason := terms_reason(self._state, job, self._now)) is not None:
            yield reason
        if self._state.kept.exhausted and (reason := self._budget_reason(job)) is not None:
            yield reason
        if self._limit_reason(job) is not None:
            yield from self._ledger.faults(job, job_amounts(job.spec, minimum_sizes(job.spec)))

    def doubtful(self, columns: Columns, slots: Ints) -> NDArray[np.bool_]:
        """Which of these rows could be kept out by more than their own terms; the others surely are not."""
        members = columns.field(slots, c.HOLDER)
        doubt = np.zeros(len(slots), dtype=np.bool_)
        if self._state.kept.exhausted:
            doubt |= columns.field(slots, c.LEAST_GPU_MILLI) > 0
        if self._ledger.is_unlimited:
            return doubt
        rooms = {
            number: room
            for number in np.flatnonzero(np.bincount(members)).tolist()
            if (room := self._left(columns.members[number]).room)
        }
        if not rooms:
            return doubt
        left = np.full((len(_BY_COLUMN), len(columns.members)), NO_END, dtype=np.int64)
        others = np.zeros(len(columns.members), dtype=np.bool_)
        for number, room in rooms.items():
            for dimension, amount in room.items():
                at = _BY_COLUMN.get(dimension)
                if at is not None:
                    left[at[0], number] = amount
                else:
                    others[number] |= dimension != JOBS or amount < 1
        for number, field in _BY_COLUMN.values():
            doubt |= columns.field(slots, field) > left[number][members]
        return doubt | others[members]

    def _budget_reason(self, job: Job) -> Reason | None:
        if not costs_gpu_time(job.spec):
            return None
        group = job.spec.group
        if group not in self._budgets:
            if self._spent is None:
                self._spent = spent(self._state, self._now)
            self._budgets[group] = budget_reason(self._state, group, self._spent)
        return self._budgets[group]

    def _limit_reason(self, job: Job) -> Reason | None:
        """The limit that keeps the job out, worked out once for all that fare the same below their limits."""
        member = (job.spec.group, job.spec.user)
        room, has_own = self._left(member)
        if not room:
            return None
        amounts = self._amounts(job)
        if all(amounts.get(dimension, 0) <= left for dimension, left in room.items()):
            return None
        spec, ask, groups = job.spec, self._state.asks.get(job.id, -job.id), self._state.kept.groups
        if self._state.door.safe_groups:
            ask = -job.id  # A budget counts how long each may run.
        user = spec.user if has_own else ""
        own = (spec.level, spec.priority, spec.service_class, spec.checkpoints, spec.preempts)
        key = (spec.group, user, ask, *own)
        known = self._memo.verdict(key, member, groups)
        if known is None:
            known = self._broken(job, amounts)
            if self._winnable.is_lasting:
                self._memo.keep(key, member, groups, known)
        if known[0] is not None:
            self.stopped[self._state.shapes.get(job.id, -job.id)] = known[1]
        return known[0]

    def _broken(self, job: Job, amounts: Mapping[str, int]) -> tuple[Reason | None, str]:
        """The reason, and the holder below whose limit nobody can make room for it."""
        first: Reason | None = None
        for rung, dimension, used, needed in self._ledger.broken(job, amounts):
            # The nearest limit is named, whichever of them it is that nobody can make room below.
            first = first or limit_reason(rung, dimension, used=used, needed=needed)
            freed = self._winnable.amount(job, rung.holder, dimension, amounts)
            if used + needed - freed > rung.limit[dimension]:
                return first, rung.holder
        return None, ""

    def _amounts(self, job: Job) -> Mapping[str, int]:
        """What the job asks for at its smallest, which is the same for equal asks unless budgets count its time."""
        ask = self._state.asks.get(job.id, -job.id)
        asked = self._asked.get(ask)
        if asked is None:
            asked = self._asked[ask] = job_amounts(job.spec, minimum_sizes(job.spec))
        return self._ledger.asked(job, asked)

    def _left(self, member: tuple[str, str]) -> Left:
        """What is left of each limited dimension on a user's way up."""
        return self._memo.left(member, self._state.kept.groups, lambda: self._work_out(*member))

    def _work_out(self, group: str, user: str) -> Left:
        own = user_rung(self._state, group=group, user=user, now=self._now)
        if own is not None:
            return Left(self._ledger.room((own, *self._ledger.group_rungs(group))), has_own=True)
        above = self._above.get(group)
        if above is None:
            above = self._above[group] = self._ledger.room(self._ledger.group_rungs(group))
        return Left(above, has_own=False)


def _is_beyond(reason: Reason) -> bool:
    """True when a limit has no room for the job even where nothing of it is used."""
    needed, limit = reason.numbers.get("needed", 0), reason.numbers.get("limit", 0)
    return reason.code in (ReasonCode.GROUP_LIMIT, ReasonCode.USER_LIMIT) and float(needed) > float(limit)


def _memo_of(state: State, pool: str) -> GateMemo:
    """What the pool's gates remember; nothing where verdicts follow from the time of day or from what others keep."""
    known, own = state.gate_memos.get(pool), state.kept.pools[pool]
    if known is not None and known.holds(own.policy, own.pool):
        return known
    fresh = GateMemo(state.live_index, own.policy, own.pool)
    if not (state.door.lenders or state.door.safe_groups or any(g.seasons for g in state.kept.groups.values())):
        state.gate_memos[pool] = fresh
    return fresh
