"""The judge at the door: which jobs may enter, and which number or rule stands in the way of the others.

A request is admitted whole or not at all. Requests that are judged together share one Draft, so that later ones see
what earlier ones took. Nothing is charged here: what a refused job would have needed was never counted.

- A job without a name is called "job-<id>".
- A job without a time limit in a group that has a longest one gets that one as its limit, visibly.
- Who may submit for a group: with members listed (UserSet) only they, its heads, and holders of a token for the group;
  without any listed member everybody whom the gateway lets through; an administrator for anybody.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gangline_core.accounting import Spent, spent
from gangline_core.facts import Fact, JobAdmitted, JobRejected
from gangline_core.gates import budget_reason
from gangline_core.groups import ancestors, user_key
from gangline_core.ids import JobId
from gangline_core.members import Members
from gangline_core.never_fits import never_fits
from gangline_core.quota import holders, job_amounts, largest_size, minimum_sizes, shown
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.rungs import most_limits
from gangline_core.spec import JobSpec
from gangline_core.state import State, count
from gangline_core.terms import deadline_reason, dependency_reason

MINUTE_MS = 60_000
REJECTIONS_MAX = 100
"""Most refused jobs of one request that are written to the log, so that a large bad batch fits one message."""

Problem = tuple[Reason, str]
"""Why a job is refused, and the path of the field that is wrong (empty when none is)."""


class Judgement(Struct, frozen=True):
    """What became of one request: either ids and facts that admit, or refusals and facts that say so."""

    jobs: tuple[JobId, ...] = ()
    facts: tuple[Fact, ...] = ()
    refusals: list[tuple[int, Reason, str]] = []
    """Index of the job in the request, the reason, and the field that is wrong."""
    repeated: bool = False
    """True when the same submit_id had been answered before; the ids are those of then."""


class Rules(Struct, frozen=True):
    """What holds for every job of one user in one group."""

    stranger: Problem | None
    """Why this user may not submit here at all."""
    caps: tuple[tuple[str, str, int, int], ...] = ()
    """(holder, its name, most unfinished jobs, most submits per minute); 0 means no cap."""
    time_limit: tuple[str, int] | None = None
    """Who sets the longest time limit, and the limit in seconds."""
    limits: tuple[tuple[str, dict[str, int]], ...] = ()
    """(holder's name, its limit) for everything that no job may ever exceed at its smallest size."""
    job_limits: tuple[tuple[str, dict[str, int]], ...] = ()
    """The same for the largest size a job may ask for."""
    spent: Reason | None = None
    """The budget that is used up."""


class Draft(Struct):
    """What requests judged together have taken so far, on top of the state."""

    admitted: int = 0
    names: dict[tuple[str, str], JobId] = field(default_factory=dict)
    submits: dict[str, tuple[JobId, ...]] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    """Jobs admitted per holder."""
    rules: dict[tuple[str, str, str], Rules] = field(default_factory=dict)
    """By group, user and who submits."""
    members: Members | None = None
    used: Spent | None = None

    def enter(self, job: JobId, spec: JobSpec) -> None:
        """Count a job as admitted."""
        self.admitted += 1
        self.names[user_key(spec.group, spec.user), spec.name] = job
        for holder in holders(spec.group, spec.user):
            count(self.entered, holder, 1)

    def leave(self, spec: JobSpec) -> None:
        """Take back the job entered last."""
        self.admitted -= 1
        del self.names[user_key(spec.group, spec.user), spec.name]
        for holder in holders(spec.group, spec.user):
            count(self.entered, holder, -1)


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
) -> Judgement:
    """Judge the jobs of one request, all or nothing; the draft remembers them when they are admitted.

    `hidden` are numbers of jobs of which the sender may not know that they exist.
    """
    answered = draft.submits.get(submit_id) or state.kept.submits.get(submit_id)
    if submit_id and answered:
        return Judgement(jobs=answered, repeated=True)
    entered: list[JobAdmitted] = []
    refusals: list[tuple[int, Reason, str]] = []
    for index, asked in enumerate(specs):
        job = JobId(state.kept.next_job + draft.admitted)
        spec = _completed(state, draft, asked, job=job, by=by, at=at)
        problem = _problem(state, draft, spec, by=by, at=at, hidden=hidden)
        if problem is not None:
            refusals.append((index, *problem))
        else:
            draft.enter(job, spec)
            entered.append(JobAdmitted(job=job, spec=spec, submit_id=submit_id, by=by, trace=trace))
    if refusals:
        for fact in reversed(entered):
            draft.leave(fact.spec)
        rejected = tuple(
            JobRejected(spec=specs[index], submit_id=submit_id, by=by, reason=reason, of=len(specs))
            for index, reason, _ in refusals[:REJECTIONS_MAX]
        )
        return Judgement(facts=rejected, refusals=refusals)
    jobs = tuple(fact.job for fact in entered)
    draft.submits[submit_id] = jobs
    return Judgement(jobs=jobs, facts=tuple(entered))


def _completed(state: State, draft: Draft, spec: JobSpec, *, job: JobId, by: str, at: int) -> JobSpec:
    """The job with its name and its group's longest time limit where it says none."""
    time_limit = _rules(state, draft, spec, by=by, at=at).time_limit
    if time_limit is not None and spec.time_limit_s == 0:
        spec = replace(spec, time_limit_s=time_limit[1])
    return spec if spec.name else replace(spec, name=_free_name(state, draft, spec, job))


def _free_name(state: State, draft: Draft, spec: JobSpec, job: JobId) -> str:
    holder, name, turn = user_key(spec.group, spec.user), f"job-{job}", 1
    while (holder, name) in state.names or (holder, name) in draft.names:
        turn += 1
        name = f"job-{job}-{turn}"
    return name


def _problem(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int, hidden: Sequence[int]) -> Problem | None:
    """The first thing that is wrong with a job, cheap and plain rules first."""
    rules = _rules(state, draft, spec, by=by, at=at)
    return (
        rules.stranger
        or _pool_problem(state, spec)
        or _name_problem(state, draft, spec)
        or _dependency_problem(state, draft, spec, hidden)
        or _cap_problem(state, draft, rules, at)
        or _time_problem(rules, spec)
        or _limit_problem(rules, spec)
        or _budget_problem(rules, spec)
        or never_fits(state.inventory(spec.pool), state.kept.pools[spec.pool].pool, spec)
    )


def _pool_problem(state: State, spec: JobSpec) -> Problem | None:
    pool = state.kept.pools.get(spec.pool)
    if pool is None:
        return Reason(ReasonCode.UNKNOWN_POOL, {"pool": spec.pool}), "pool"
    if spec.level not in pool.pool.levels:
        return Reason(ReasonCode.UNKNOWN_LEVEL, {"pool": spec.pool, "level": spec.level}), "level"
    return None


def _name_problem(state: State, draft: Draft, spec: JobSpec) -> Problem | None:
    key = (user_key(spec.group, spec.user), spec.name)
    others = state.names.get(key)
    other = next(iter(others)) if others else draft.names.get(key)
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
        is_known = dependency.job in drafted or state.job(JobId(dependency.job)) is not None
        if not is_known or dependency.job in hidden:
            return Reason(ReasonCode.UNKNOWN_DEPENDENCY, {"job": dependency.job}), f"after[{index}]"
    reason = dependency_reason(state, (d for d in spec.after if d.job not in drafted))
    if reason is not None and reason.code == ReasonCode.DEPENDENCY_FAILED:
        return reason, "after"
    return None


def _cap_problem(state: State, draft: Draft, rules: Rules, at: int) -> Problem | None:
    for holder, name, queued_max, rate_max in rules.caps:
        drafted = draft.entered.get(holder, 0)
        unfinished = state.unfinished.get(holder, 0) + drafted
        if queued_max and unfinished >= queued_max:
            numbers: dict[str, int | str] = {"holder": name, "used": unfinished, "limit": queued_max}
            return Reason(ReasonCode.QUEUE_FULL, numbers), ""
        times = state.kept.recent_submits.get(holder, ()) if rate_max else ()
        recent = drafted + sum(time > at - MINUTE_MS for time in times)
        if rate_max and recent >= rate_max:
            return Reason(ReasonCode.SUBMIT_RATE, {"holder": name, "used": recent, "limit": rate_max}), ""
    return None


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
                return _over_limit(holder, dimension, needed, most), where
    return None


_FIELDS = {"gpu_milli": "gpus", "cpu_milli": "cpus", "memory_mib": "memory"}


def _over_limit(holder: str, dimension: str, needed: int, limit: int) -> Reason:
    label, needed_shown = shown(dimension, needed)
    numbers: dict[str, int | str] = {
        "needed": needed_shown,
        "dimension": label,
        "holder": holder,
        "limit": shown(dimension, limit)[1],
    }
    return Reason(ReasonCode.NEVER_FITS_LIMIT, numbers)


def _budget_problem(rules: Rules, spec: JobSpec) -> Problem | None:
    if rules.spent is None or not any(role.resources.wants_gpu for role in spec.roles):
        return None
    return rules.spent, ""


# --- what holds for a user in a group ------------------------------------------------------------------------


def _rules(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int) -> Rules:
    key = (spec.group, spec.user, by)
    found = draft.rules.get(key)
    if found is None:
        found = draft.rules[key] = _make_rules(state, draft, group=spec.group, user=spec.user, by=by, at=at)
    return found


def _make_rules(state: State, draft: Draft, *, group: str, user: str, by: str, at: int) -> Rules:
    if group not in state.kept.groups:
        return Rules(stranger=(Reason(ReasonCode.UNKNOWN_GROUP, {"group": group or "(none)"}), "group"))
    if draft.members is None:
        draft.members = Members(state)
    if not draft.members.may_submit(group=group, user=user, by=by):
        return Rules(stranger=(Reason(ReasonCode.UNKNOWN_USER, {"user": user, "group": group}), "user"))
    limits = list(most_limits(state, group=group, user=user))
    above = [state.kept.groups[path] for path in ancestors(group) if path in state.kept.groups]
    times = [(one.time_limit_s_max, _named(one.path)) for one in above if one.time_limit_s_max]
    return Rules(
        stranger=None,
        caps=tuple(_caps(state, group=group, user=user)),
        time_limit=(min(times)[1], min(times)[0]) if times else None,
        limits=tuple(limits),
        job_limits=tuple(
            (f"{_named(one.path)} for one job", {d.lower(): most for d, most in one.job_limit.items()})
            for one in above
            if one.job_limit
        ),
        spent=_spent_budget(state, draft, group, at),
    )


def _spent_budget(state: State, draft: Draft, group: str, at: int) -> Reason | None:
    if not any(path in state.kept.exhausted for path in ancestors(group)):
        return None
    if draft.used is None:
        draft.used = spent(state, at)
    return budget_reason(state, group, draft.used)


def _caps(state: State, *, group: str, user: str) -> Iterator[tuple[str, str, int, int]]:
    holder = user_key(group, user)
    own = state.kept.users.get(holder)
    if own is not None and (own.queued_jobs_max or own.submits_per_minute):
        yield holder, f"User {user}", own.queued_jobs_max, own.submits_per_minute
    for path in ancestors(group):
        known = state.kept.groups.get(path)
        if known is not None and (known.queued_jobs_max or known.submits_per_minute):
            name = f"Group {path}" if path else "The whole cluster"
            yield path, name, known.queued_jobs_max, known.submits_per_minute


def _named(path: str) -> str:
    return f"group {path}" if path else "the whole cluster"
