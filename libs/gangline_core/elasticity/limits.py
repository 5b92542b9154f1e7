"""Limits of jobs that work beside others: they follow the step times that those others report (AntMan, OSDI 2020).

A job begins at START_PERCENT beside somebody. When a report shows that a step takes the owner of the GPU more than SLOW
percent of what it takes alone, the limit is halved; when every owner has reported since and goes WELL, it rises by
STEP_PERCENT. An owner that reports and was never seen alone, with this batch and on so many members, is measured first:
until it has told of a step made while nobody beside it was allowed anything, the limit is 0. An owner that does not
report is not measured, so the limit beside it stays where it is. Alone on its GPUs a job may take all of their time.
One report leads to one change at most, so nothing swings by itself.
"""

from gangline_core.facts import LimitSet
from gangline_core.job import Job
from gangline_core.room.company import (
    ALL_PERCENT,
    START_PERCENT,
    is_unknown_alone,
    owners,
    slower_percent,
    works_beside,
)
from gangline_core.spec import ServiceClass
from gangline_core.state import State

STEP_PERCENT = 10
SLOW, WELL = 105, 102
MET = "beside others"
"""Said when somebody whose step times are not known beside this job begins to share a GPU with it."""


def limits(state: State, pool: str) -> tuple[LimitSet, ...]:
    """Limits that should be others now, by job id."""
    found = []
    sorts = state.live_sorts.get(pool, {})
    able = (jobs for sort, jobs in sorts.items() if sort.service_class == ServiceClass.OPPORTUNISTIC)
    for job_id in sorted(job for jobs in able for job in jobs):
        job = state.kept.jobs[job_id]
        if works_beside(state, job):
            percent, why = _limit(state, job)
            if percent != job.limit_percent or why == MET:
                found.append(LimitSet(job=job.id, percent=percent, why=why))
    return tuple(found)


def _limit(state: State, job: Job) -> tuple[int, str]:
    with_it = owners(state, job)
    if not with_it:
        return ALL_PERCENT, "alone"
    now = job.limit_percent
    if now < 0 or max(with_it.values()) > job.limited_ms:
        return START_PERCENT, MET
    heard = [state.kept.jobs[owner] for owner in with_it if state.kept.reported.get(owner, 0) > job.limited_ms]
    unknown = next((owner for owner in heard if is_unknown_alone(state, owner)), None)
    if unknown is not None:
        return 0, f"nobody knows what job {unknown.id} needs for a step alone"
    slow = {owner.id: percent for owner in heard if (percent := slower_percent(state, owner)) is not None}
    for owner, percent in slow.items():
        if percent > SLOW:
            return now // 2, f"job {owner} needs {percent} % of a step alone"
    if len(slow) == len(with_it) and max(slow.values()) <= WELL:
        return min(ALL_PERCENT, now + STEP_PERCENT), "the others are as fast as alone"
    return now, ""
