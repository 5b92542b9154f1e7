"""What a job's own terms say about when it may run: what it follows, its namesakes, its deadline."""

from collections.abc import Iterable, Iterator

from gangline_core.door.array_record import KEPT, PENDING, ArrayRecord
from gangline_core.door.arrays import lookup
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.scoring.attained import service_milli
from gangline_core.spec import Dependency, DependencyKind, JobSpec, starts_again
from gangline_core.state import State

_ENDED_HOW = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
    JobState.TIMED_OUT: "ran into its time limit",
    JobState.LOST: "was lost",
}
NEVER = frozenset({ReasonCode.DEPENDENCY_FAILED, ReasonCode.DEADLINE})
"""Reasons for which a waiting job can never run any more."""


def terms_reason(state: State, job: Job, now: int) -> Reason | None:
    """Why the job's own terms keep it from starting now; None when they do not."""
    spec = job.spec
    if spec.deadline_ms and (late := deadline_reason(spec, now, had=job.attained)) is not None:
        return late
    if spec.after and (reason := dependency_reason(state, spec.after)) is not None:
        return reason
    if spec.singleton and (reason := singleton_reason(state, job)) is not None:
        return reason
    if spec.not_before_ms > now:
        return Reason(ReasonCode.NOT_BEFORE, {"not_before_ms": spec.not_before_ms})
    return None


def dependency_reason(state: State, after: Iterable[Dependency]) -> Reason | None:
    """What the job still has to wait for, or why it can never run; a failure is told before anything that waits."""
    waits: Reason | None = None
    for dependency in after:
        wants = dependency.wants
        had = "fail" if wants == DependencyKind.NOT_OK else "succeed"
        other = lookup(state, dependency.job)
        if other is None:
            # Ended so long ago that only the archive knows how; a wanted outcome is not assumed.
            if wants != DependencyKind.ANY:
                numbers: dict[str, int | str] = {"job": dependency.job, "had": had, "state": "is no longer known"}
                return Reason(ReasonCode.DEPENDENCY_FAILED, numbers)
        elif other.state not in ENDS:
            waits = waits or Reason(ReasonCode.DEPENDENCY, {"job": other.id})
        elif wants != DependencyKind.ANY and (other.state == JobState.SUCCEEDED) != (wants == DependencyKind.OK):
            numbers = {"job": other.id, "had": had, "state": _ENDED_HOW[other.state]}
            return Reason(ReasonCode.DEPENDENCY_FAILED, numbers)
    return waits


def singleton_reason(state: State, job: Job) -> Reason | None:
    """The earlier job of the same user and name, in whatever group, that has not ended."""
    namesakes = state.door.namesakes.get((job.spec.user, job.spec.name), {})
    own = job.array or job.id
    earlier = min((other for other in namesakes if other < own), default=None)
    return None if earlier is None else Reason(ReasonCode.SINGLETON, {"job": earlier})


def deadline_reason(spec: JobSpec, now: int, *, had: int = 0) -> Reason | None:
    """Why the job can no longer end in time, were it to start now; `had` is the service of its runs so far."""
    if not spec.deadline_ms or now <= last_start_ms(spec, had=had):
        return None
    return Reason(ReasonCode.DEADLINE, {"deadline_ms": spec.deadline_ms})


def aside(state: State, pool: str) -> Iterator[tuple[JobId, JobSpec, int]]:
    """Jobs with a deadline that nobody lets run now, and what service they had: they wait for no round, and end at it.

    The number of an array stands for all of its elements that are not in the queue and have no terms of their own.
    """
    for name in state.door.dated.get(pool, ()):
        job = state.kept.jobs.get(name)
        if job is not None and job.state in (JobState.HELD, JobState.SUSPENDED):
            yield name, job.spec, job.attained
        array = state.kept.arrays.get(name)
        if array is not None and array.pending:
            yield from _elements_aside(array)


def _elements_aside(array: ArrayRecord) -> Iterator[tuple[JobId, JobSpec, int]]:
    kept = (KEPT,) if array.held is None else (KEPT, PENDING)
    places = [position for position, letter in enumerate(array.marks) if letter in kept]
    if array.held is not None and any(position not in array.edits for position in places):
        yield array.id, array.spec, 0
        places = [position for position in places if position in array.edits]
    for position in places:
        yield array.element(position), array.element_spec(position), 0


def last_start_ms(spec: JobSpec, *, had: int = 0) -> int:
    """After this moment a job with a deadline can no longer end in time, when its runs so far `had` this service."""
    return spec.deadline_ms - shortest_ms(spec, had=had)


def may_begin_again(spec: JobSpec, now: int, *, had: int) -> bool:
    """True when a job that had this service and is told to stop now may start once more when its grace is over."""
    return not spec.deadline_ms or now + spec.grace_s * 1000 <= last_start_ms(spec, had=had)


def shortest_ms(spec: JobSpec, *, had: int = 0) -> int:
    """How long the job is expected to run at least; one millisecond when nobody says anything.

    Who goes on where it stopped needs what is left alone. Of a run that was lost nobody knows how much it had saved:
    all of it counts, since a job that is given up too early has lost everything.
    """
    done_ms = had // max(1, service_milli(spec)) if starts_again(spec) else 0
    return max(1, (spec.estimate_s or spec.time_limit_s) * 1000 - done_ms)


def limit_s(spec: JobSpec, start_ms: int) -> float:
    """How long the job may run when it starts then, by its time limit and its deadline; 0 means for ever."""
    left = max(1.0, (spec.deadline_ms - start_ms) / 1000) if spec.deadline_ms else 0.0
    if not left or not spec.time_limit_s:
        return left or float(spec.time_limit_s)
    return min(left, float(spec.time_limit_s))


def task_limit_s(job: Job, placed_ms: int) -> float:
    """What the job's terms leave of its time to a task that was placed then; 0 is for ever.

    A member that joins a running job does not begin its time anew.
    """
    began_ms = job.started_ms
    allowed_s = limit_s(job.spec, began_ms or placed_ms)
    used_s = max(0, placed_ms - began_ms) / 1000 if began_ms else 0
    return max(1.0, allowed_s - used_s) if allowed_s else 0


def followed(state: State, spec: JobSpec) -> list[Job]:
    """The jobs that this one follows, as far as they are known."""
    return [other for d in spec.after if (other := lookup(state, JobId(d.job))) is not None]
