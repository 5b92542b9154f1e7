"""How the run of a program on the dollhouse's machines goes, by what its job says and what it did before."""

from msgspec.structs import replace

from gangline_agent.simulated import RUN_TIME, Script, script
from gangline_core.job import Job, Task


def course_of(job: Job, task: Task, *, done_s: float) -> Script:
    """How its run goes when so much of its work was done and saved by earlier ones."""
    if done_s:
        left_s = max(0.0, seconds_in(job.spec.attributes.get(RUN_TIME)) - done_s)
        job = replace(job, spec=replace(job.spec, attributes={**job.spec.attributes, RUN_TIME: left_s}))
    return script(job, speed=1.0, placed_ms=task.placed_ms)


def seconds_in(value: object) -> float:
    """The time in an attribute; none where it says nothing of the kind."""
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0
