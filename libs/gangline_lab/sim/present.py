"""Jobs that say how long they take as they are now, and say it anew when that is no longer true.

A job whose batch size changes is faster or slower from then on, and every start costs time that is no work. What it
says is what it ran so far and what is left at its present batch size.
"""

from collections.abc import Mapping

from gangline_core import facts as f
from gangline_core.door.edits import JobEdit
from gangline_core.ids import JobId
from gangline_core.scoring.attained import attained, service_milli
from gangline_core.state import State
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.courses import Course, time_left_ms
from gangline_lab.sim.runs import Run
from gangline_lab.sim.throughput import Staged

OFF_PART, OFF_MS = 20, 1000
"""A job says anew what is left when that is off by more than its twentieth part, and by more than a second."""
WHY = "what is left takes another time than it said"


def told_anew(state: State, runs: Mapping[JobId, Run], now: int, conditions: Conditions) -> list[f.Fact]:
    """What running jobs say now that said something else before, where conditions have them do so."""
    facts: list[f.Fact] = []
    if conditions.estimates != "present":
        return facts
    for job_id in sorted(runs):
        run, job = runs[job_id], state.job(job_id)
        if job is None or run.held is None:
            continue
        done = run.done_by(now)
        if done >= run.course.total:
            continue
        ran_ms = attained(state, job, now) // max(1, service_milli(job.spec))
        course = run.course
        left_ms = course.left_ms(done) if isinstance(course, Staged) else time_left_ms(course, run.held, done=done)
        if abs(1000 * job.spec.estimate_s - ran_ms - left_ms) > max(OFF_MS, left_ms // OFF_PART):
            edit = JobEdit(estimate_s=max(1, -(-(ran_ms + left_ms) // 1000)))
            facts.append(f.JobEdited(job=job_id, edit=edit, by=job.spec.user, why=WHY))
    return facts


def first_told_s(course: Course) -> int:
    """What a job of this course says when it is submitted; 0 where it has no stages."""
    return max(1, -(-course.left_ms(0) // 1000)) if isinstance(course, Staged) and course.left else 0
