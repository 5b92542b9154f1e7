"""What is told to the user of a job that checkpoints about making way for others, and to whom others make way."""

from gangline_core.cluster import Policy
from gangline_core.job import LIVE, Job, JobState
from gangline_core.making_room.yielding import NEVER_MS, yields_from_ms
from gangline_core.reasons import utc
from gangline_core.scoring.ageing import starves_from_ms
from gangline_core.scoring.had_share import has_had_share, has_yielding
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
    if not has_had_share(job.spec, job.attained - job.forgiven, policy):
        return None
    told = f"It checkpoints and had {policy.yield_after_gpu_s} GPU-seconds, so those go first that had less"
    if policy.starvation_s <= 0:
        return f"{told}."
    starves_ms = starves_from_ms(state, job, policy)
    return f"{told}, until {utc(starves_ms)}." if starves_ms > now else None


def _running(state: State, job: Job, policy: Policy, now: int) -> str | None:
    from_ms = yields_from_ms(state, job, policy, now)
    if from_ms >= NEVER_MS:
        return None
    since = f"from {utc(from_ms)} on" if from_ms > now else "now"
    return (
        f"It checkpoints, and makes way {since} for jobs that do and had less than {policy.yield_after_gpu_s} "
        "GPU-seconds; it goes on later where it stopped."
    )
