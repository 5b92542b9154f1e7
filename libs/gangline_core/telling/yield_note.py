"""What is told to the user of a job that checkpoints about making way for others, and to whom others make way."""

from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.job import LIVE, Job, JobState
from gangline_core.making_room.yielding import NEVER_MS, yields_in, yields_more_ms
from gangline_core.reasons import utc
from gangline_core.scoring.ageing import starves_from_ms
from gangline_core.scoring.attained import GPU_SECOND, attained, service_milli
from gangline_core.scoring.yield_queue import has_yielding, yield_queue
from gangline_core.state import State

HOUR_S = 3600


def yield_note(state: State, job: Job, now: int) -> str | None:
    """One sentence; None where there is nothing to tell."""
    policy = state.pool_of(job).policy
    if not job.spec.checkpoints or not has_yielding(policy):
        return None
    if job.state == JobState.WAITING:
        return _waiting(state, job, policy, now)
    return _running(state, job, policy, now) if job.state in LIVE else None


def _waiting(state: State, job: Job, policy: Policy, now: int) -> str | None:
    had = job.attained - job.forgiven
    queue = yield_queue(job.spec, had, policy)
    if not queue:
        return None
    told = (
        f"It checkpoints and had {_gpu_hours(had // GPU_SECOND)} GPU-hours, so those go first that "
        f"{_passers(policy, queue)}"
    )
    until = ""
    if policy.starvation_s > 0:
        starves_ms = starves_from_ms(state, job, policy)
        if starves_ms <= now:
            return None
        until = f", until {utc(starves_ms)}"
    return f"{told}{until}. {_needs(job, had, queue, policy)}"


def _running(state: State, job: Job, policy: Policy, now: int) -> str | None:
    at, queue = now, yields_in(state, job, policy, now)
    if not queue and (at := yields_more_ms(state, job, policy, now)) < NEVER_MS:
        queue = yields_in(state, job, policy, at)
    if not queue:
        return None
    since = "now" if at == now else f"from {utc(at)} on"
    return (
        f"It checkpoints, and makes way {since} for jobs that do, too, and {_passers(policy, queue)}; it goes on later "
        f"where it stopped. {_needs(job, attained(state, job, at), queue, policy)}"
    )


def _passers(policy: Policy, queue: int) -> str:
    """Who is in a lower queue than this one."""
    share_s = policy.yield_after_gpu_s
    share, below = _gpu_hours(share_s), _gpu_hours(share_s << (queue - 1))
    return f"had less than {share} GPU-hours or are taken to need less than {below} more"


def _needs(job: Job, had: int, queue: int, policy: Policy) -> str:
    """What tells how much the job itself is taken to need still, and how its user may tell it better."""
    spec, tell = job.spec, f"`gangline edit {job.id} estimate=TIME`"
    if spec.time_limit_s and yield_queue(replace(spec, time_limit_s=0), had, policy) > queue:
        return "Its time limit leaves it that much or more."
    if 1000 * spec.estimate_s * service_milli(spec) > had:
        return f"Its estimate leaves it that much or more; {tell} says how long it runs in all."
    why = "Its estimate is over" if spec.estimate_s else "It has no estimate"
    return f"{why}, so it is taken to need as much as it had; {tell} says how long it runs in all."


def _gpu_hours(seconds: int) -> str:
    return f"{seconds / HOUR_S:.2f}".rstrip("0").rstrip(".")
