"""What is told to the user of a job that checkpoints about making way for others, and to whom others make way."""

from gangline_core.cluster import Policy
from gangline_core.job import LIVE, Job, JobState
from gangline_core.making_room.yielding import NEVER_MS, yields_in, yields_more_ms
from gangline_core.reasons import utc
from gangline_core.scoring.ageing import starves_from_ms
from gangline_core.scoring.attained import GPU_SECOND
from gangline_core.scoring.yield_queue import has_yielding, yield_queue
from gangline_core.state import State


def yield_note(state: State, job: Job, now: int) -> str | None:
    """One sentence; None where there is nothing to tell."""
    policy = state.pool_of(job).policy
    if not job.spec.checkpoints or not has_yielding(policy):
        return None
    if job.state == JobState.WAITING:
        return _waiting(state, job, policy, now)
    return _running(state, job, policy, now) if job.state in LIVE else None


def _waiting(state: State, job: Job, policy: Policy, now: int) -> str | None:
    queue = yield_queue(job.spec, job.attained - job.forgiven, policy)
    if not queue:
        return None
    had_s, below_s = (job.attained - job.forgiven) // GPU_SECOND, policy.yield_after_gpu_s << (queue - 1)
    told = f"It checkpoints and had {had_s} GPU-seconds, so those go first that are taken to need less than {below_s}"
    if policy.starvation_s <= 0:
        return f"{told}."
    starves_ms = starves_from_ms(state, job, policy)
    return f"{told}, until {utc(starves_ms)}." if starves_ms > now else None


def _running(state: State, job: Job, policy: Policy, now: int) -> str | None:
    queue, from_ms = yields_in(state, job, policy, now), yields_more_ms(state, job, policy, now)
    since = "now" if queue else f"from {utc(from_ms)} on"
    if not queue and from_ms < NEVER_MS:
        queue = yields_in(state, job, policy, from_ms)
    if not queue:
        return None
    below_s = policy.yield_after_gpu_s << (queue - 1)
    return (
        f"It checkpoints, and makes way {since} for jobs that do and are taken to need less than {below_s} "
        "GPU-seconds; it goes on later where it stopped."
    )
