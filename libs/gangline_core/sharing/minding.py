"""How much a job minds others on its GPUs: the sharing scores of Lucid (ASPLOS 2023), 0 not at all to 2 much.

Lucid has a job's score from how fast it is beside others, on average: 0 from 95 % of its speed alone, 1 from 85 %. It
learns to tell that from how busy jobs keep their GPU. Ours is worked out from how busy a job keeps its busiest
resource: two that together ask for more than all of it are slowed down in proportion, so a job that keeps it busy for a
part u of the time has 1 - u + ln(1 + u) of its speed beside others who keep it busy for any part, all parts alike. That
is 0.95 at u = 0.35, and 0.85 at 0.65.
"""

from gangline_core.foresight.past_use import usual_percent
from gangline_core.job import Job
from gangline_core.sharing.stages import stages_of
from gangline_core.spec import JobSpec
from gangline_core.state import State

SCORES_MOST = 2
"""Scores of two that share GPUs add up to no more than this."""
LIGHT_PERCENT, HALF_PERCENT = 35, 65
"""Who keeps no resource busier than this has score 0, or 1; others have 2, and so has whoever nobody knows."""
UNKNOWN = -1
BUSY_PERCENT = 80
"""Owners whose GPUs are as busy as this have no guests, nor have those of whom nobody knows."""


def sharing_score(state: State, job: Job) -> int:
    """How much the job minds others on its GPUs, as far as anybody knows."""
    return score_of(busiest_percent(state, job))


def score_of(percent: int) -> int:
    """The score of a job that keeps its busiest resource this busy; -1 is unknown."""
    if percent == UNKNOWN or percent > HALF_PERCENT:
        return 2
    return 0 if percent <= LIGHT_PERCENT else 1


def lets_in(state: State, job: Job) -> tuple[int, bool]:
    """What of its being busy says who may share its GPUs: its score, and whether there is time for a guest."""
    return sharing_score(state, job), UNKNOWN < measured_percent(state, job) < BUSY_PERCENT


def busiest_percent(state: State, job: Job) -> int:
    """How busy it keeps its busiest resource: the most of what it says and of what was measured; -1 when nobody knows.

    What was measured is its own use, or before that the use of jobs like it.
    """
    return max(measured_percent(state, job), told_percent(job.spec))


def measured_percent(state: State, job: Job) -> int:
    """How busy its GPUs were when they were last measured, or those of jobs like it; -1 when they never were."""
    use = state.kept.job_use.get(job.id)
    if use is not None and use.gpu_percent != UNKNOWN:
        return use.gpu_percent
    return usual_percent(state.kept.use_history, job.spec)


def told_percent(spec: JobSpec) -> int:
    """The longest stage of an iteration, in percent of the whole; -1 when the job does not tell of its stages."""
    stages = stages_of(spec)
    if stages is None:
        return UNKNOWN
    longest = max(stages.loading_us, stages.compute_us, stages.network_us)
    return min(100, 100 * longest // stages.iteration_us)
