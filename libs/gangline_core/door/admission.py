"""The judge at the door: which jobs may enter, and which number or rule stands in the way of the others.

A request is admitted whole or not at all. Requests that are judged together share one Draft, so that later ones see
what earlier ones took. Nothing is charged here: what a refused job would have needed was never counted.

- A job without a name is called "job-<id>".
- A job without a time limit in a group that has a longest one gets that one as its limit, visibly.
- Who may submit for a group: with members listed (UserSet) only they, its heads, and holders of a token for the group;
  without any listed member everybody whom the gateway lets through; an administrator for anybody.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gangline_core.door.array_record import array_size, position_of
from gangline_core.door.arrays import element_number, lookup, numbers_taken
from gangline_core.door.members import Members
from gangline_core.door.never_below_limit import above_limit, counts_by_card, never_below
from gangline_core.door.never_fits import never_fits
from gangline_core.door.never_fits_cells import never_fits_cells
from gangline_core.door.rules import Problem, Rules, make_rules
from gangline_core.door.terms import deadline_reason, dependency_reason
from gangline_core.facts import Fact, JobAdmitted, JobRejected
from gangline_core.groups import holders, user_key
from gangline_core.ids import JobId
from gangline_core.limits.accounting import Spent
from gangline_core.limits.budgets import never_inside
from gangline_core.limits.dimension_names import shown
from gangline_core.limits.quota import job_amounts, largest_size, minimum_sizes
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import Dependency, JobSpec, costs_gpu_time
from gangline_core.state import State, count

MINUTE_MS = 60_000
REJECTIONS_MAX = 100
"""Most refused jobs of one request that are written to the log, so that a large bad batch fits one message."""


class Judgement(Struct, frozen=True):
    """What became of one request: either ids and facts that admit, or refusals and facts that say so."""

    jobs: tuple[JobId, ...] = ()
    facts: tuple[Fact, ...] = ()
    refusals: list[tuple[int, Reason, str]] = []
    """Index of the job in the request, the reason, and the field that is wrong."""
    repeated: bool = False
    """True when the same submit_id had been answered before; the ids are those of then."""
    was_refused: bool = False
    """True when a copy of this very request was refused before, and would be taken by now."""


class Draft(Struct):
    """What requests judged together have taken so far, on top of the state."""

    admitted: int = 0
    names: dict[tuple[str, str], JobId] = field(default_factory=dict)
    submits: dict[str, tuple[JobId, ...]] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    """Jobs admitted per holder, elements of arrays one by one."""
    sent: dict[str, int] = field(default_factory=dict)
    """Submissions per holder; an array is one."""
    rules: dict[tuple[str, str, str], Rules] = field(default_factory=dict)
    """By group, user and who submits."""
    members: Members | None = None
    used: Spent | None = None

    def enter(self, job: JobId, spec: JobSpec) -> None:
        """Count a job as admitted."""
        self._count(spec, 1)
        self.names[user_key(spec.group, spec.user), spec.name] = job

    def leave(self, spec: JobSpec) -> None:
        """Take back the job entered last."""
        self._count(spec, -1)
        self.names.pop((user_key(spec.group, spec.user), spec.name), None)

    def _count(self, spec: JobSpec, sign: int) -> None:
        self.admitted += sign * numbers_taken(spec)
        for holder in holders(spec.group, spec.user):
            count(self.entered, holder, sign * elements(spec))
            count(self.sent, holder, sign)


def judge_submit(
    state: State,
    draft: Draft,
    *,
    specs: Sequence[JobSpec],
    submit_id: str,
    by: str,
    trace: str,
    at: int,
    hidden: Sequence[int] = (),
    ask: str = "",
) -> Judgement:
    """Judge the jobs of one request, all or nothing; the draft remembers them when they are admitted.

    `hidden` are numbers of jobs of which the sender may not know that they exist. `ask` names the very request: one
    that was refused is not taken later, for its sender was told so.
    """
    answered = draft.submits.get(submit_id) or state.kept.submits.get(submit_id)
    if submit_id and answered:
        return Judgement(jobs=answered, repeated=True)
    entered: list[JobAdmitted] = []
    refusals: list[tuple[int, Reason, str]] = []
    numbers: list[JobId | None] = []
    for index, asked in enumerate(specs):
        job = JobId(state.kept.next_job + draft.admitted)
        spec = _completed(state, draft, _numbered(asked, specs, numbers), job=job, by=by, at=at, hidden=hidden)
        problem = _problem(state, draft, spec, by=by, at=at, hidden=hidden)
        numbers.append(None if problem else job)
        if problem is not None:
            refusals.append((index, *problem))
        else:
            draft.enter(job, spec)
            entered.append(JobAdmitted(job=job, spec=spec, submit_id=submit_id, by=by, trace=trace))
    if refusals:
        for fact in reversed(entered):
            draft.leave(fact.spec)
        rejected = tuple(
            JobRejected(spec=specs[index], submit_id=submit_id, by=by, reason=reason, of=len(specs), ask=ask)
            for index, reason, _ in refusals[:REJECTIONS_MAX]
        )
        if ask:
            draft.submits[ask] = ()
        return Judgement(facts=rejected, refusals=refusals)
    if ask and (ask in draft.submits or ask in state.kept.submits):
        for fact in reversed(entered):
            draft.leave(fact.spec)
        return Judgement(was_refused=True)
    jobs = tuple(fact.job for fact in entered)
    draft.submits[submit_id] = jobs
    return Judgement(jobs=jobs, facts=tuple(entered))


def numbered_together(specs: Sequence[JobSpec], jobs: Sequence[int]) -> list[JobSpec]:
    """The jobs of one request with the numbers in place that they were given."""
    numbers = [JobId(job) for job in jobs]
    return [_numbered(spec, specs, numbers[:place]) for place, spec in enumerate(specs)]


def _numbered(spec: JobSpec, specs: Sequence[JobSpec], numbers: Sequence[JobId | None]) -> JobSpec:
    """The job with the numbers of those of the same request that it follows; `numbers` are theirs that came before.

    One that was refused is left out: it refuses this one, too.
    """
    if all(dependency.entry < 0 for dependency in spec.after):
        return spec
    after: list[Dependency] = []
    for one in spec.after:
        if not 0 <= one.entry < len(numbers):
            after.append(replace(one, entry=-1))
        elif (number := numbers[one.entry]) is not None:
            after.append(_of_drafted(specs[one.entry], number, replace(one, job=number, entry=-1)))
    return replace(spec, after=tuple(after))


def _of_drafted(other: JobSpec, number: JobId, dependency: Dependency) -> Dependency:
    """A dependency on an element of an array that is asked for together with the job."""
    if dependency.index < 0 or other.array is None:
        return dependency
    position = position_of(other.array, dependency.index)
    return dependency if position is None else replace(dependency, job=number + 1 + position, index=-1)


def _completed(
    state: State, draft: Draft, spec: JobSpec, *, job: JobId, by: str, at: int, hidden: Sequence[int]
) -> JobSpec:
    """The job with its name and its group's longest time limit where it says none."""
    spec = with_time_limit(state, draft, spec, by=by, at=at)
    if any(dependency.index >= 0 for dependency in spec.after):
        # An array that the sender may not know of keeps its number, by which it is refused.
        after = (one if one.job in hidden else _of_element(state, one) for one in spec.after)
        spec = replace(spec, after=tuple(after))
    return spec if spec.name else replace(spec, name=_free_name(state, draft, spec, job))


def with_time_limit(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int) -> JobSpec:
    """The job with its group's longest time limit where it says none."""
    time_limit = _rules(state, draft, spec, by=by, at=at).time_limit
    return spec if time_limit is None or spec.time_limit_s else replace(spec, time_limit_s=time_limit[1])


def _of_element(state: State, dependency: Dependency) -> Dependency:
    """A dependency on "42_7" names that element's own number from here on; one that does not exist stays as it is."""
    number = element_number(state, dependency.job, dependency.index) if dependency.index >= 0 else None
    return dependency if number is None else replace(dependency, job=number, index=-1)


def _free_name(state: State, draft: Draft, spec: JobSpec, job: JobId) -> str:
    holder, name, turn = user_key(spec.group, spec.user), f"job-{job}", 1
    while (holder, name) in state.door.names or (holder, name) in draft.names:
        turn += 1
        name = f"job-{job}-{turn}"
    return name


def _problem(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int, hidden: Sequence[int]) -> Problem | None:
    """The first thing that is wrong with a job, cheap and plain rules first."""
    rules = _rules(state, draft, spec, by=by, at=at)
    return (
        rules.stranger
        or pool_problem(state, spec)
        or _name_problem(state, draft, spec)
        or _dependency_problem(state, draft, spec, hidden)
        or _cap_problem(state, draft, rules, spec, at)
        or bound_problem(rules, spec, bounds=rules.user_bounds)
        or _time_problem(rules, spec)
        or _deadline_problem(spec, at)
        or _limit_problem(rules, spec)
        or _budget_problem(rules, spec)
        or _room_problem(state, spec)
        or _card_problem(state, rules, spec)
    )


def judge_terms(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int, had: int) -> Problem | None:
    """What is wrong with the terms of a job that is admitted already, were it submitted now.

    Its name, its predecessors and its place in the caps are not asked again, nor how high its priority may be; it
    `had` this service.
    """
    rules = _rules(state, draft, spec, by=by, at=at)
    return (
        pool_problem(state, spec)
        or _time_problem(rules, spec)
        or _deadline_problem(spec, at, had=had)
        or _limit_problem(rules, spec)
        or _room_problem(state, spec)
        or _card_problem(state, rules, spec)
    )


def _room_problem(state: State, spec: JobSpec) -> Problem | None:
    """What no machines of the pool, and no cells of the group, could ever hold."""
    known = state.kept.pools[spec.pool]
    inventory = state.inventory(spec.pool)
    return never_fits(inventory, known.pool, spec) or never_fits_cells(inventory, known, spec)


def _card_problem(state: State, rules: Rules, spec: JobSpec) -> Problem | None:
    """A limit by GPU model or GPU memory that the job breaks on whatever machines of the pool."""
    pool, inventory = state.kept.pools[spec.pool].pool, state.inventory(spec.pool)
    largest = {role.name: largest_size(role) for role in spec.roles}
    for limits, sizes in ((rules.limits, minimum_sizes(spec)), (rules.job_limits, largest)):
        if counts_by_card(spec, limits) and (reason := never_below(inventory, pool, spec, sizes=sizes, limits=limits)):
            return reason, "roles[0].gpus" if len(spec.roles) == 1 else "roles"
    return None


def pool_problem(state: State, spec: JobSpec) -> Problem | None:
    """A pool or a queue level that nobody has heard of."""
    pool = state.kept.pools.get(spec.pool)
    if pool is None:
        return Reason(ReasonCode.UNKNOWN_POOL, {"pool": spec.pool}), "pool"
    if spec.level not in pool.pool.levels:
        return Reason(ReasonCode.UNKNOWN_LEVEL, {"pool": spec.pool, "level": spec.level}), "level"
    return None


def _name_problem(state: State, draft: Draft, spec: JobSpec) -> Problem | None:
    key = (user_key(spec.group, spec.user), spec.name)
    others = state.door.names.get(key)
    other = min(others) if others else draft.names.get(key)
    if other is None or spec.singleton:
        # A singleton waits for its namesakes instead.
        return None
    return Reason(ReasonCode.NAME_TAKEN, {"user": spec.user, "name": spec.name, "job": other}), "name"


def _dependency_problem(state: State, draft: Draft, spec: JobSpec, hidden: Sequence[int]) -> Problem | None:
    if not spec.after:
        return None
    # Jobs admitted a moment ago have not ended, so only the state's jobs can have failed.
    drafted = range(state.kept.next_job, state.kept.next_job + draft.admitted)
    for index, dependency in enumerate(spec.after):
        is_known = dependency.job in drafted or lookup(state, dependency.job) is not None
        if not is_known or dependency.index >= 0 or dependency.job in hidden:
            named = dependency.job if dependency.index < 0 else f"{dependency.job}_{dependency.index}"
            return Reason(ReasonCode.UNKNOWN_DEPENDENCY, {"job": named}), f"after[{index}]"
    reason = dependency_reason(state, (d for d in spec.after if d.job not in drafted))
    if reason is not None and reason.code == ReasonCode.DEPENDENCY_FAILED:
        return reason, "after"
    return None


def _cap_problem(state: State, draft: Draft, rules: Rules, spec: JobSpec, at: int) -> Problem | None:
    for holder, name, queued_max, rate_max in rules.caps:
        unfinished = state.unfinished.get(holder, 0) + draft.entered.get(holder, 0)
        if queued_max and unfinished + elements(spec) > queued_max:
            asked = elements(spec)
            if asked > queued_max:
                never: dict[str, int | str] = {"holder": name, "needed": asked, "limit": queued_max}
                return Reason(ReasonCode.QUEUE_TOO_SMALL, never), "array"
            numbers: dict[str, int | str] = {"holder": name, "used": unfinished, "limit": queued_max}
            return Reason(ReasonCode.QUEUE_FULL, numbers), "array" if spec.array else ""
        times = state.kept.recent_submits.get(holder, ()) if rate_max else ()
        recent = [time for time in times if time > at - MINUTE_MS] + [at] * draft.sent.get(holder, 0)
        if rate_max and len(recent) >= rate_max:
            # There is room again when enough of the last minute's submissions are older than that.
            retry_s = -(-(recent[-rate_max] + MINUTE_MS - at) // 1000)
            numbers = {"holder": name, "used": len(recent), "limit": rate_max, "retry_s": max(1, retry_s)}
            return Reason(ReasonCode.SUBMIT_RATE, numbers), ""
    return None


def bound_problem(rules: Rules, spec: JobSpec, *, bounds: Sequence[tuple[str, int]]) -> Problem | None:
    """A priority or a queue level that is not for these jobs."""
    for holder, most in bounds:
        if spec.priority > most:
            numbers: dict[str, int | str] = {"needed": spec.priority, "holder": holder, "limit": most}
            return Reason(ReasonCode.PRIORITY_BOUND, numbers), "priority"
    for holder, levels in rules.levels:
        if spec.level not in levels:
            numbers = {"holder": holder, "level": spec.level, "allowed": ", ".join(levels)}
            return Reason(ReasonCode.LEVEL_BOUND, numbers), "level"
    return None


def _deadline_problem(spec: JobSpec, at: int, *, had: int = 0) -> Problem | None:
    begins = max(at, spec.not_before_ms)
    reason = deadline_reason(spec, begins, had=had) if spec.deadline_ms else None
    return (reason, "deadline") if reason is not None else None


def _time_problem(rules: Rules, spec: JobSpec) -> Problem | None:
    if rules.time_limit is None or spec.time_limit_s <= rules.time_limit[1]:
        return None
    name, limit = rules.time_limit
    numbers: dict[str, int | str] = {"needed": spec.time_limit_s, "holder": name, "limit": limit}
    return Reason(ReasonCode.TIME_LIMIT_TOO_LONG, numbers), "time_limit"


def _limit_problem(rules: Rules, spec: JobSpec) -> Problem | None:
    """A limit that the job breaks even when nothing else runs."""
    least = job_amounts(spec, minimum_sizes(spec)) if rules.limits else {}
    problem = _above(rules.limits, least, spec)
    if problem is not None or not rules.job_limits:
        return problem
    return _above(rules.job_limits, job_amounts(spec, {role.name: largest_size(role) for role in spec.roles}), spec)


def _above(limits: Sequence[tuple[str, dict[str, int]]], amounts: Mapping[str, int], spec: JobSpec) -> Problem | None:
    for holder, limit in limits:
        for dimension, most in limit.items():
            needed = amounts.get(dimension, 0)
            if needed > most:
                at = _FIELDS.get(dimension.partition(":")[0], "")
                where = f"roles[0].{at}" if at and len(spec.roles) == 1 else "roles"
                return above_limit(holder, *shown(dimension, needed), most, dimension), where
    return None


_FIELDS = {
    "gpu_milli": "gpus",
    "gpu_memory_mib": "gpu_memory",
    "cpu_milli": "cpus",
    "memory_mib": "memory",
    "device": "devices",
}


def _budget_problem(rules: Rules, spec: JobSpec) -> Problem | None:
    if not costs_gpu_time(spec):
        return None
    if rules.spent is not None:
        return rules.spent, ""
    reason = next((r for budget in rules.safe if (r := never_inside(budget, spec, rules.prices)) is not None), None)
    return (reason, "time_limit") if reason is not None else None


def rules_of(state: State, draft: Draft, *, group: str, user: str, by: str, at: int) -> Rules:
    """What holds for this user's jobs in the group; remembered by the draft."""
    key = (group, user, by)
    found = draft.rules.get(key)
    if found is None:
        found = draft.rules[key] = make_rules(state, draft, group=group, user=user, by=by, at=at)
    return found


def _rules(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int) -> Rules:
    return rules_of(state, draft, group=spec.group, user=spec.user, by=by, at=at)


def elements(spec: JobSpec) -> int:
    """How many jobs it is for the caps: an array counts by its elements."""
    return array_size(spec.array) if spec.array is not None else 1
