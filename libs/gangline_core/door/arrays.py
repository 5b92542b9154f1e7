"""What is known of any job number: a job, a whole array, or an element that is only a letter in its array's record."""

from msgspec import Struct

from gangline_core.door.array_record import (
    ENDED_AS,
    KEPT,
    OPEN,
    PENDING,
    ArrayRecord,
    array_size,
    array_text,
    position_of,
    ranges_text,
    runs,
)
from gangline_core.ids import JobId
from gangline_core.job import LIVE, Job, JobState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import JobSpec
from gangline_core.state import State

_WORST_FIRST = (JobState.FAILED, JobState.LOST, JobState.TIMED_OUT, JobState.CANCELLED)


def lookup(state: State, job: int) -> Job | None:
    """The job of this number; arrays and their elements are shown as jobs, whether these exist or not."""
    found = state.kept.jobs.get(JobId(job))
    if found is not None:
        return found
    array = state.kept.arrays.get(JobId(job))
    if array is not None:
        return whole(state, array)
    array = array_of(state, job)
    return _element(array, job) if array is not None else None


def array_of(state: State, element: int) -> ArrayRecord | None:
    """The array that this number is an element of."""
    name = state.arrays.before(element)
    array = state.kept.arrays.get(name) if name is not None else None
    return array if array is not None and element <= array.id + array.size else None


def element_number(state: State, array: int, index: int) -> JobId | None:
    """The number of an array's element, by its index."""
    record = state.kept.arrays.get(JobId(array))
    if record is None or record.spec.array is None:
        return None
    position = position_of(record.spec.array, index)
    return None if position is None else record.element(position)


def first_waiting(state: State, array: ArrayRecord) -> Job | None:
    """The first of its elements that waits in the queue."""
    open_ones = (array.element(position) for position, mark in enumerate(array.marks) if mark == OPEN)
    jobs = (state.job(element) for element in open_ones)
    return next((job for job in jobs if job is not None and job.state == JobState.WAITING), None)


def whole(state: State, array: ArrayRecord) -> Job:
    """The array as one job: it runs while any element does, and ends as the worst of them did."""
    standing = standing_of(state, array)
    return Job(
        id=array.id,
        spec=array.spec,
        state=standing,
        submitted_ms=array.submitted_ms,
        queued_ms=array.submitted_ms,
        submitted_by=array.submitted_by,
        reason=_reason(array, standing),
        ended_ms=array.ended_ms,
        trace=array.trace,
        edited=array.edited,
    )


def standing_of(state: State, array: ArrayRecord) -> JobState:
    """The one state of the whole array."""
    if array.ended_ms:
        ends = {ENDED_AS[letter] for letter in set(array.marks)}
        return next((worst for worst in _WORST_FIRST if worst in ends), JobState.SUCCEEDED)
    states = [state.kept.jobs[job].state for job in state.arrays.open.get(array.id, {})]
    if any(one in LIVE for one in states):
        return JobState.RUNNING
    if JobState.WAITING in states or (array.held is None and PENDING in array.marks):
        return JobState.WAITING
    return JobState.HELD


def counts(state: State, array: ArrayRecord) -> dict[JobState, int]:
    """Elements by state; those that are not in the queue yet wait."""
    found: dict[JobState, int] = {}
    for one, indexes in by_state(state, array).items():
        found[one] = len(indexes)
    return found


def by_state(state: State, array: ArrayRecord) -> dict[JobState, list[int]]:
    """Indexes by state, ascending."""
    waits = JobState.HELD if array.held is not None else JobState.WAITING
    found: dict[JobState, list[int]] = {}
    for position, letter in enumerate(array.marks):
        if letter == PENDING:
            standing = waits
        elif letter == KEPT:
            standing = JobState.HELD
        elif letter == OPEN:
            standing = state.kept.jobs[array.element(position)].state
        else:
            standing = ENDED_AS[letter]
        found.setdefault(standing, []).append(array.index(position))
    return {one: found[one] for one in JobState if one in found}


def ranges_by_state(state: State, array: ArrayRecord) -> dict[str, str]:
    """The same as text: {"running": "42-51", "waiting": "52-999"}."""
    return {one.value: ranges_text(runs(indexes)) for one, indexes in by_state(state, array).items()}


class ArrayTold(Struct, frozen=True):
    """One sentence about an array, and the reason behind it."""

    sentence: str
    reason: Reason | None


def told(state: State, array: ArrayRecord) -> ArrayTold:
    """Where the array as a whole stands."""
    numbers = ", ".join(f"{count} {one.value}" for one, count in counts(state, array).items())
    text = f"{array.size} elements ({array_text(array.spec.array)}): {numbers}." if array.spec.array else ""
    return ArrayTold(sentence=text, reason=_reason(array, standing_of(state, array)))


def label(state: State, job: int) -> str:
    """How people write a job's number: "42_7" for an element, "43" for a job of its own."""
    array = array_of(state, job)
    return f"{array.id}_{array.index(array.position(job))}" if array is not None else str(job)


def as_written(state: State, reason: Reason) -> Reason:
    """The same reason with the job that it names as people write it; its numbers have the job's own number.

    Not where somebody named a job that may be hidden from them: what it is an element of, is not told.
    """
    job = reason.numbers.get("job")
    if reason.code == ReasonCode.UNKNOWN_DEPENDENCY or not isinstance(job, int) or array_of(state, job) is None:
        return reason
    return Reason(reason.code, {**reason.numbers, "job": label(state, job)})


def numbers_taken(spec: JobSpec) -> int:
    """How many job numbers a job takes: its own, and one per element."""
    return 1 + (array_size(spec.array) if spec.array is not None else 0)


def _element(array: ArrayRecord, job: int) -> Job:
    """An element that is no job: it has not entered the queue, or ended long ago."""
    position = array.position(job)
    letter = array.marks[position]
    waits = JobState.HELD if array.held is not None else JobState.WAITING
    standing = JobState.HELD if letter == KEPT else waits if letter in (PENDING, OPEN) else ENDED_AS[letter]
    return Job(
        id=JobId(job),
        spec=array.element_spec(position),
        state=standing,
        submitted_ms=array.submitted_ms,
        queued_ms=array.submitted_ms,
        submitted_by=array.submitted_by,
        reason=_element_reason(array, position, standing),
        array=array.id,
        array_index=array.index(position),
    )


def _element_reason(array: ArrayRecord, position: int, standing: JobState) -> Reason | None:
    letter = array.marks[position]
    if letter == KEPT:
        return Reason(ReasonCode.HELD, {"by": array.kept_by.get(position, "")})
    if array.over is not None and standing == JobState.FAILED and position >= array.next:
        return array.over
    return _reason(array, standing) if letter == PENDING else None


def _reason(array: ArrayRecord, standing: JobState) -> Reason | None:
    if array.ended_ms:
        return array.over if standing == JobState.FAILED else None
    if array.held is not None:
        return array.held
    is_capped = bool(array.at_most) and array.pending > 0 and array.open >= array.at_most
    if is_capped and standing in (JobState.WAITING, JobState.RUNNING):
        return Reason(ReasonCode.ARRAY_CAP, {"open": array.open, "cap": array.at_most, "array": array.id})
    return None
