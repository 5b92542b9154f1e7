"""From a request about jobs, dated capacity or prices to its facts and its answer, by the core's rules. Pure."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gangline_admission.removals import forget_node, remove_group, remove_user
from gangline_admission.verdict import Verdict, checked, denied, stale
from gangline_core import settings
from gangline_core.door.admission import Draft
from gangline_core.door.arrays import array_of, lookup
from gangline_core.door.edits import changed
from gangline_core.door.job_rights import EditProblem, Standing, check_edit, check_top
from gangline_core.facts import (
    CancelRequested,
    HoldSet,
    JobEdited,
    JobTopped,
    PricesSet,
    ResizeAsked,
    WindowRemoved,
    WindowSet,
)
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.settings.dated import check_prices, check_window
from gangline_core.settings.document_change import check, facts, version_of
from gangline_core.state import State
from gangline_wire import requests as r


def cancel(state: State, draft: Draft, request: r.CancelJob, at: int) -> Verdict:
    """End a job, an array, or one element of it, whether that is in the queue yet or not."""
    job = lookup(state, request.job)
    return _ended(job, request.job) or Verdict(
        reply=r.Done(), facts=(CancelRequested(job=JobId(request.job), by=request.by, why=request.why),)
    )


def hold(state: State, draft: Draft, request: r.SetHold, at: int) -> Verdict:
    """Hold or release a job or an array."""
    job = lookup(state, request.job)
    problem = _ended(job, request.job)
    if problem is not None or job is None:
        return problem or denied("not_found", f"there is no job {request.job}")
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
    job = lookup(state, request.job)
    problem = _ended(job, request.job)
    if problem is not None or job is None:
        return problem or denied("not_found", f"there is no job {request.job}")
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


def window(state: State, draft: Draft, request: r.SetWindow, at: int) -> Verdict:
    """Set dated capacity aside, or change it."""
    known = state.kept.windows.get(request.window.name)
    version = known.version if known else 0
    if request.if_version not in (-1, version):
        return stale(version)
    wanted = replace(request.window, version=version + 1)
    fact = WindowSet(window=wanted, by=request.by, why=request.why)
    return checked(check_window(state, wanted, at), fact, version=wanted.version, dry_run=request.dry_run)


def remove_window(state: State, draft: Draft, request: r.RemoveWindow, at: int) -> Verdict:
    """Give dated capacity back."""
    if request.name not in state.kept.windows:
        return denied("not_found", f"there is no window {request.name}")
    return Verdict(reply=r.Done(), facts=(WindowRemoved(name=request.name, by=request.by, why=request.why),))


def prices(state: State, draft: Draft, request: r.SetPrices, at: int) -> Verdict:
    """Change the price list."""
    version = state.kept.prices_version
    if request.if_version not in (-1, version):
        return stale(version)
    milli = {model.lower(): price for model, price in request.milli.items()}
    fact = PricesSet(milli=milli, by=request.by, why=request.why, version=version + 1)
    return checked(check_prices(request.milli), fact, version=version + 1, dry_run=request.dry_run)


def apply(state: State, draft: Draft, request: r.ApplySettings, at: int) -> Verdict:
    """Make all settings as a document says: one append, or nothing."""
    version = version_of(state)
    if request.if_version not in (-1, version):
        return stale(version)
    wrong = check(state, request.document, at)
    if wrong:
        first = wrong[0]
        name = f"{first.kind} {first.name}".strip()
        return denied("invalid", f"{name}: {first.problem.message}", first.problem.field)
    written = facts(state, request.document, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=() if request.dry_run else written)


def _ended(job: Job | None, number: int) -> Verdict | None:
    if job is None:
        return denied("not_found", f"there is no job {number}")
    if job.state in ENDS:
        return denied("conflict", f"job {number} has ended already ({job.state.replace('_', ' ')})")
    return None


def _denied_edit(problem: EditProblem | settings.Problem) -> Verdict:
    return denied(problem.kind, problem.message, problem.field)


ACTS: dict[type[r.Request], Callable[[State, Draft, Any, int], Verdict]] = {
    r.CancelJob: cancel,
    r.SetHold: hold,
    r.EditJob: edit,
    r.TopJob: top,
    r.SetSize: size,
    r.SetWindow: window,
    r.RemoveWindow: remove_window,
    r.SetPrices: prices,
    r.ApplySettings: apply,
    r.RemoveGroup: remove_group,
    r.RemoveUser: remove_user,
    r.ForgetNode: forget_node,
}
"""Request -> who judges it."""
