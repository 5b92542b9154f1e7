"""From a request about jobs to its facts and its answer, by the core's rules. Pure."""

from gangline_admission.verdict import Verdict, denied
from gangline_core.door.admission import judge_submit
from gangline_core.door.arrays import array_of, lookup
from gangline_core.door.draft import Draft
from gangline_core.door.edits import changed
from gangline_core.door.job_rights import EditProblem, Standing, check_edit, check_top
from gangline_core.facts import CancelRequested, HoldSet, JobEdited, JobTopped, ResizeAsked
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.state import State
from gangline_wire import requests as r
from gangline_wire.bounds import beyond

WAS_REFUSED = "this very request was refused before, when something kept it out that does not any more; send it anew"


def submit(state: State, draft: Draft, request: r.SubmitJobs, at: int) -> Verdict:
    """Admit jobs, all of them or none."""
    for index, spec in enumerate(request.jobs):
        # Pods and other objects become specs, too; what cannot be counted with must not come into the log.
        if (fault := beyond(spec)) is not None:
            return denied("invalid", f"{fault[0]} of job {index} {fault[1]}", fault[0])
    judgement = judge_submit(
        state,
        Draft() if request.dry_run else draft,
        specs=request.jobs,
        submit_id=request.submit_id,
        by=request.by,
        trace=request.trace,
        at=at,
        hidden=request.hidden,
        ask=request.ask,
    )
    if judgement.was_refused:
        return denied("conflict", WAS_REFUSED)
    if judgement.refusals:
        refusals = tuple(r.Refusal(index=i, reason=reason, field=field) for i, reason, field in judgement.refusals)
        return Verdict(reply=r.Refused(refusals=refusals), facts=() if request.dry_run else judgement.facts)
    reply = r.Admitted(jobs=judgement.jobs, repeated=judgement.repeated)
    if request.dry_run or judgement.repeated:
        return Verdict(reply=reply)
    secrets = {job: values for job, values in zip(judgement.jobs, request.secrets, strict=False) if values}
    return Verdict(reply=reply, facts=judgement.facts, secrets=secrets)


def cancel(state: State, draft: Draft, request: r.CancelJob, at: int) -> Verdict:
    """End a job, an array, or one element of it, whether that is in the queue yet or not."""
    job = _unfinished(state, request.job)
    if isinstance(job, Verdict):
        return job
    return Verdict(reply=r.Done(), facts=(CancelRequested(job=job.id, by=request.by, why=request.why),))


def hold(state: State, draft: Draft, request: r.SetHold, at: int) -> Verdict:
    """Hold or release a job or an array."""
    job = _unfinished(state, request.job)
    if isinstance(job, Verdict):
        return job
    if (shut := _held_as_a_whole(state, job, request)) is not None:
        return shut
    is_array = job.id in state.kept.arrays
    if not is_array and _stands_as_wanted(job, request):
        return Verdict(reply=r.Done())
    fact = HoldSet(job=job.id, held=request.held, by=request.by, pause=request.pause, urgent=request.urgent)
    return Verdict(reply=r.Done(), facts=(fact,))


def _stands_as_wanted(job: Job, request: r.SetHold) -> bool:
    """True when a repeat of what somebody asked for already changes nothing."""
    if job.state == JobState.STOPPING:
        return False
    if job.pause is not None:
        stays = not job.pause.wants
        return stays and request.pause if request.held else not stays and job.pause.urgent >= request.urgent
    return request.held == (job.state in (JobState.HELD, JobState.SUSPENDED))


def _held_as_a_whole(state: State, job: Job, request: r.SetHold) -> Verdict | None:
    """An element that is not in the queue yet cannot be released out of an array that is held."""
    array = array_of(state, job.id) if job.array and job.id not in state.kept.jobs else None
    if array is None or request.held or array.held is None:
        return None
    return denied("conflict", f"array {array.id} is held as a whole; release array {array.id}")


def edit(state: State, draft: Draft, request: r.EditJob, at: int) -> Verdict:
    """Change terms of a job."""
    standing = Standing[request.standing.upper()]
    problem = check_edit(state, draft, job=request.job, edit=request.edit, standing=standing, by=request.by, at=at)
    if problem is not None:
        return _denied_edit(problem)
    job = lookup(state, request.job)
    if request.dry_run or job is None or not changed(job.spec, request.edit):
        return Verdict(reply=r.Done())
    fact = JobEdited(job=JobId(request.job), edit=request.edit, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))


def top(state: State, draft: Draft, request: r.TopJob, at: int) -> Verdict:
    """Put a waiting job before others."""
    problem = check_top(state, job=request.job)
    if problem is not None:
        return _denied_edit(problem)
    fact = JobTopped(job=JobId(request.job), among=request.among, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))


def size(state: State, draft: Draft, request: r.SetSize, at: int) -> Verdict:
    """Ask for a size of a running elastic job, within its bounds; 0 leaves it to the policy again."""
    job = _unfinished(state, request.job)
    if isinstance(job, Verdict):
        return job
    if job.id not in state.kept.jobs:
        return denied("conflict", f"{request.job} is no single job in the queue; name one element", "job")
    names = [role.name for role in job.spec.roles]
    name = request.role or (names[0] if len(names) == 1 else "")
    role = next((role for role in job.spec.roles if role.name == name), None)
    if role is None:
        return denied("invalid", f"say of which role: {', '.join(names)}", "role")
    if request.size and role.is_elastic and not role.allows(request.size):
        sizes = f"one of {', '.join(map(str, role.sizes))}" if role.sizes else f"{role.min_count} to {role.max_count}"
        return denied("invalid", f"is {request.size}; role {role.name} may have {sizes} tasks", "size")
    if not role.is_elastic:
        counted = f"{role.count} task{'s' if role.count > 1 else ''}"
        return denied("conflict", f"role {role.name} is not elastic: it has {counted} for good", "size")
    fact = ResizeAsked(job=job.id, role=role.name, size=request.size, by=request.by)
    return Verdict(reply=r.Done(), facts=(fact,))


def _unfinished(state: State, number: int) -> Job | Verdict:
    """The job of this number, or why there is nothing to do to it."""
    job = lookup(state, number)
    if job is None:
        return denied("not_found", f"there is no job {number}")
    if job.state in ENDS:
        return denied("conflict", f"job {number} has ended already ({job.state.replace('_', ' ')})")
    return job


def _denied_edit(problem: EditProblem) -> Verdict:
    return denied(problem.kind, problem.message, problem.field)
