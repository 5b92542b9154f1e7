"""When must a pool be looked at again although nothing happens? Only for things that time alone changes."""

from gangline_core.job import JobState
from gangline_core.state import State

CLAIM_MARGIN_MS = 60_000
"""How long after its grace a victim may take before its claim is planned anew."""


def next_wake_ms(state: State, pool_name: str, now: int) -> int | None:
    """The next time in ms after `now` at which a new round could decide otherwise; None when only events matter."""
    pool = state.kept.pools[pool_name]
    times = [reservation.start_ms for reservation in pool.reservations]
    starvation_ms = pool.policy.starvation_s * 1000
    for job_id in state.waiting.get(pool_name, {}):
        job = state.kept.jobs[job_id]
        times.append(job.spec.not_before_ms)
        times.append(job.queued_ms + starvation_ms)
    for claim in state.kept.claims.values():
        job = state.kept.jobs[claim.job]
        if job.spec.pool == pool_name and job.state == JobState.WAITING:
            times.append(claim.made_ms + CLAIM_MARGIN_MS)
    later = [time for time in times if time > now]
    return min(later) if later else None
