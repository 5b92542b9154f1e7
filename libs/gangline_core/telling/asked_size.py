"""What keeps a running job from the size that somebody asked for by hand."""

from gangline_core.elasticity.by_hand import nearest
from gangline_core.elasticity.room import more
from gangline_core.job import Job, JobState
from gangline_core.limits.quota import JOBS, job_amounts
from gangline_core.making_room.claims import honour_claims
from gangline_core.reasons import sentence
from gangline_core.seating import allowed_sizes
from gangline_core.spec import Role
from gangline_core.state import State
from gangline_core.table import Table


def asked_size_note(state: State, job: Job, now: int) -> str | None:
    """How many tasks were asked for, how many there are, and why not the next more; None where all are there."""
    if job.state not in (JobState.RUNNING, JobState.RESIZING) or job.winding_down:
        return None
    for role in job.spec.roles:
        asked, size = job.asked.get(role.name, 0), job.sizes.get(role.name, 0)
        if nearest(role, asked) > size:
            return f"Asked for {asked} tasks of {role.name}, has {size}: {_why(state, job, role, now)}"
    return None


def _why(state: State, job: Job, role: Role, now: int) -> str:
    size = job.sizes.get(role.name, 0)
    step = min(allowed for allowed in allowed_sizes(role) if allowed > size) - size
    table = Table(state, job.spec.pool, now)
    honour_claims(table)
    amounts = job_amounts(job.spec, {one.name: step if one is role else 0 for one in job.spec.roles})
    del amounts[JOBS]
    limit = table.ledger.fault(job, amounts)
    if limit is not None:
        return sentence(limit)
    if more(table, table.room, job, role, count=step) is None:
        return f"there is no room for {step} more."
    return "it grows at the next look, unless the room is for a job that waits."
