"""Who may change what of a job that was admitted: its user, a head of its group, an administrator."""

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.door.arrays import lookup
from gangline_core.door.checks import bound_problem, judge_terms, pool_problem
from gangline_core.door.draft import Draft
from gangline_core.door.edits import WAITING_ONLY, JobEdit, changed, edited, given
from gangline_core.door.retiming import TIMES, budget_problem, retime_problem
from gangline_core.groups import user_key
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import Reason, sentence
from gangline_core.state import State

NOT_STARTED = frozenset({JobState.WAITING, JobState.HELD, JobState.SUSPENDED})
_FIELDS = {
    "time_limit_s": "time_limit",
    "estimate_s": "estimate",
    "not_before_ms": "not_before",
    "deadline_ms": "deadline",
}
"""How the terms are called where users write them, if otherwise."""


class Standing(IntEnum):
    """What somebody is to a job, weakest first."""

    OWNER = 1
    """It is their own job."""
    HEAD = 2
    """They lead its group or one above."""
    ADMIN = 3


class EditProblem(Struct, frozen=True):
    """Why a change is refused: `kind` is "not_found", "conflict", "forbidden" or "invalid"."""

    kind: str
    message: str
    field: str = ""
    reason: Reason | None = None


def check_edit(
    state: State, draft: Draft, *, job: int, edit: JobEdit, standing: Standing, by: str, at: int
) -> EditProblem | None:
    """What is wrong with this edit; None when it may be written.

    The whole job is judged again as it would then be, as if it were submitted now. Owners stay within what users may
    set, heads within what their group may, and administrators within what the pool has.
    """
    known = lookup(state, job)
    if known is None:
        return EditProblem("not_found", f"there is no job {job}")
    if known.state in ENDS:
        return EditProblem("conflict", f"job {job} has ended already ({known.state.replace('_', ' ')})")
    if not given(edit):
        return EditProblem("invalid", "says nothing to change")
    problem = _shape_problem(state, known, edit)
    if problem is not None:
        return problem
    has_started = known.state not in NOT_STARTED and known.id in state.kept.jobs
    problem = _retime_problem(state, known, edit, standing, at) if has_started else None
    if problem is not None:
        return problem
    spec = edited(known.spec, edit)
    changes = changed(known.spec, edit)
    if standing != Standing.ADMIN and changes.keys() & {"priority", "level", "pool"}:
        rules = draft.rules_of(state, group=spec.group, user=spec.user, by=by, at=at)
        bounds = rules.user_bounds if standing == Standing.OWNER else rules.group_bounds
        # What somebody else set is not held against an edit that leaves it; what is unknown is named as that first.
        wrong = pool_problem(state, spec) or bound_problem(rules, spec, bounds=bounds if "priority" in changes else ())
        if wrong is not None:
            return _said(*wrong)
    # A deadline of what has started cuts its time; whether it could begin anew before it is not asked.
    judged = replace(spec, deadline_ms=0) if has_started else spec
    wrong = judge_terms(state, draft, judged, by=spec.user, at=at, had=known.attained)
    return None if wrong is None else _said(*wrong)


def _retime_problem(state: State, known: Job, edit: JobEdit, standing: Standing, at: int) -> EditProblem | None:
    """What is wrong with giving a job that has started more or less time."""
    owns, rules = standing == Standing.OWNER, standing == Standing.ADMIN
    fault = retime_problem(state, known, edit, is_owner=owns, is_admin=rules, at=at)
    field = _FIELDS.get(min(given(edit).keys() & TIMES, default=""), "")
    if fault is not None:
        return EditProblem("forbidden" if fault.startswith("only ") else "conflict", fault, field)
    short = budget_problem(state, known, edit, at)
    return None if short is None else EditProblem("conflict", sentence(short), field, short)


def _shape_problem(state: State, known: Job, edit: JobEdit) -> EditProblem | None:
    """Terms that this job does not have, or no longer can change."""
    names = given(edit).keys()
    is_array = known.id in state.kept.arrays
    if "at_most" in names and not is_array:
        return EditProblem("invalid", "only an array has a cap", "at_most")
    started = names & WAITING_ONLY if known.state not in NOT_STARTED and not is_array else frozenset()
    if started:
        field = _FIELDS.get(min(started), min(started))
        return EditProblem("conflict", f"can be changed only before the job starts; it is {known.state}", field)
    return None


def _said(reason: Reason, field: str) -> EditProblem:
    return EditProblem("invalid", sentence(reason), field, reason)


def top_scope(job: Job, standing: Standing, wanted: str) -> str | EditProblem:
    """Among whose jobs one goes first: a user's own, a group's for its heads, everybody's for administrators.

    `wanted` is "user", "group" or "all"; empty takes the narrowest.
    """
    own = user_key(job.spec.group, job.spec.user)
    scopes: Mapping[str, tuple[Standing, str]] = {
        "": (Standing.OWNER, own),
        "user": (Standing.OWNER, own),
        "group": (Standing.HEAD, job.spec.group),
        "all": (Standing.ADMIN, ""),
    }
    if wanted not in scopes:
        return EditProblem("invalid", 'must be "user", "group" or "all"', "among")
    least, scope = scopes[wanted]
    if standing < least:
        who = "an administrator" if least == Standing.ADMIN else "a head of its group"
        return EditProblem("forbidden", f"only {who} may put a job before those of others", "among")
    return scope


def check_top(state: State, *, job: int) -> EditProblem | None:
    """What is wrong with putting this job first."""
    known = lookup(state, job)
    if known is None:
        return EditProblem("not_found", f"there is no job {job}")
    if JobId(job) not in state.kept.jobs or known.state not in NOT_STARTED:
        what = f"{known.state}"
        if JobId(job) in state.kept.arrays:
            what = "an array; name one of its elements"
        elif known.array and JobId(job) not in state.kept.jobs and known.state not in ENDS:
            what = "an element that is not in the queue yet"
        return EditProblem("conflict", f"only a job that waits can be put first; {job} is {what}")
    return None
