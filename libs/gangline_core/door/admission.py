"""The judge at the door: which jobs may enter, and which number or rule stands in the way of the others.

A request is admitted whole or not at all. Requests that are judged together share one Draft, so that later ones see
what earlier ones took. Nothing is charged here: what a refused job would have needed was never counted.

- A job without a name is called "job-<id>".
- A job without a time limit in a group that has a longest one gets that one as its limit, visibly.
- Who may submit for a group: with members listed (UserSet) only they, its heads, and holders of a token for the group;
  without any listed member everybody whom the gateway lets through; an administrator for anybody.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.door.array_record import position_of
from gangline_core.door.arrays import element_number
from gangline_core.door.checks import AT_THE_DOOR, Look, first_problem
from gangline_core.door.draft import Draft as Draft
from gangline_core.door.rules import Rules
from gangline_core.facts import Fact, JobAdmitted, JobRejected
from gangline_core.groups import user_key
from gangline_core.ids import JobId
from gangline_core.reasons import Reason
from gangline_core.spec import Dependency, JobSpec
from gangline_core.state import State

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
        rules = draft.rules_of(state, group=asked.group, user=asked.user, by=by, at=at)
        spec = _completed(state, draft, rules, _numbered(asked, specs, numbers), job=job, hidden=hidden)
        problem = first_problem(AT_THE_DOOR, Look(state, draft, rules, spec, at, hidden=hidden))
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
    state: State, draft: Draft, rules: Rules, spec: JobSpec, *, job: JobId, hidden: Sequence[int]
) -> JobSpec:
    """The job with its name and its group's longest time limit where it says none."""
    spec = _limited(rules, spec)
    if any(dependency.index >= 0 for dependency in spec.after):
        # An array that the sender may not know of keeps its number, by which it is refused.
        after = (one if one.job in hidden else _of_element(state, one) for one in spec.after)
        spec = replace(spec, after=tuple(after))
    return spec if spec.name else replace(spec, name=_free_name(state, draft, spec, job))


def with_time_limit(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int) -> JobSpec:
    """The job with its group's longest time limit where it says none."""
    return _limited(draft.rules_of(state, group=spec.group, user=spec.user, by=by, at=at), spec)


def _limited(rules: Rules, spec: JobSpec) -> JobSpec:
    time_limit = rules.time_limit
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
