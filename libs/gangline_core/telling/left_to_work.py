"""What is told of runs that priority leaves to their work (see `shields`): to their users, and to those who wait."""

from gangline_core.counted import counted
from gangline_core.job import LIVE, Job, JobState
from gangline_core.making_room.losses import effective_priority, is_shielded, shield_ends_ms
from gangline_core.reasons import utc
from gangline_core.state import State


def left_to_work_note(state: State, job: Job, now: int) -> str | None:
    """One sentence; None where there is nothing to tell."""
    if job.state == JobState.WAITING:
        return _outranked(state, job, now)
    if job.state not in LIVE or not is_shielded(job, now):
        return None
    until = f"before {utc(shield_ends_ms(job))}" if job.started_ms else "before it has run as long"
    return (
        f"It was kept from its work for {job.shield_ms // 1000} s, by waits and evictions, so nobody of higher "
        f"priority has it evicted {until}."
    )


def _outranked(state: State, job: Job, now: int) -> str | None:
    """For a waiting job: how many it outranks that are left to work, and until when the first of them is."""
    pool = state.pool_of(job).pool
    mine = effective_priority(pool, job.spec)
    shielded = (state.kept.jobs[name] for name in state.live_index.shielded.get(pool.name, {}))
    ends = [
        shield_ends_ms(other)
        for other in shielded
        if is_shielded(other, now) and effective_priority(pool, other.spec) < mine
    ]
    if not ends:
        return None
    known = [end for end in ends if end]
    first = f", the first until {utc(min(known))}" if known else ""
    jobs = counted(len(ends), "job")
    return f"{jobs} of lower priority had been kept from work for so long that they are left to work now{first}."
