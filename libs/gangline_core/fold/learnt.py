"""What a pool's model foretells of a job becomes part of the job, when it enters or when the model comes."""

from msgspec.structs import replace

from gangline_core.foresight.learnt import run_ms
from gangline_core.foresight.predict import LEARNT
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.state import State


def with_learnt(state: State, job: Job, at: int) -> Job:
    """The job with its run time as its pool's model has it; as it is where the pool has none."""
    known = state.kept.pools.get(job.spec.pool)
    if known is None or known.policy.predictor != LEARNT or not known.policy.model:
        return job
    return replace(job, learnt_ms=run_ms(known.policy.model, state.kept.history, job.spec, at))


def learn_anew(state: State, pool: str, at: int) -> None:
    """Another model, or none, speaks of the pool's waiting jobs from now on."""
    is_learnt = state.kept.pools[pool].policy.predictor == LEARNT
    for job_id in sorted(state.waiting.get(pool, {})):
        job = state.kept.jobs[JobId(job_id)]
        assert job.state == JobState.WAITING, "the index holds waiting jobs"
        state.put_job(with_learnt(state, job, at) if is_learnt else replace(job, learnt_ms=()))
