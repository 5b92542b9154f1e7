"""How arrays live: elements enter the queue as earlier ones start and end, and the record keeps how each ended."""

from msgspec.structs import replace

from gangline_core.door.array_record import KEPT, LETTERS, OPEN, PENDING, ArrayRecord, array_size
from gangline_core.door.arrays import array_of
from gangline_core.door.edits import JobEdit, edited, merged
from gangline_core.facts import CancelRequested, HoldSet, JobAdmitted, JobEdited
from gangline_core.fold.learnt import with_learnt
from gangline_core.ids import JobId
from gangline_core.job import ENDS, LIVE, Job, JobState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State
from gangline_core.step import JobMoved, Step

IN_QUEUE_MAX = 128
"""Elements of one array that wait in the queue at once; further equal ones could not fare better."""
ENDED_ARRAYS_KEPT = 2_000
"""Ended arrays the fold remembers; older ones are found in the archive."""


def admit_array(state: State, fact: JobAdmitted, step: Step) -> None:
    """A new array enters, with its first elements in the queue unless it is held."""
    assert fact.spec.array is not None, "only arrays come here"
    size = array_size(fact.spec.array)
    array = ArrayRecord(
        id=fact.job,
        spec=fact.spec,
        submitted_ms=step.at,
        marks=PENDING * size,
        submitted_by=fact.by,
        trace=fact.trace,
        held=Reason(ReasonCode.HELD, {"by": fact.by}) if fact.spec.hold else None,
    )
    state.kept.next_job = max(state.kept.next_job, fact.job + 1 + size)
    state.put_array(array)
    enter_queue(state, array, step)


def tend_arrays(state: State, step: Step) -> None:
    """After a message: elements that ended are noted, and others enter the queue in their place."""
    touched: dict[JobId, None] = {}
    for moved in step.moves:
        job = state.kept.jobs.get(moved.job)
        if job is not None and job.array and moved.before is not None:
            touched[JobId(job.array)] = None
            if moved.after in ENDS:
                _note_end(state, job, step)
    for name in touched:
        array = state.kept.arrays.get(name)
        if array is not None and not array.ended_ms:
            enter_queue(state, array, step)
    if touched:
        _forget_ended(state)


def enter_queue(state: State, array: ArrayRecord, step: Step) -> None:
    """The next elements become waiting jobs, as many as the cap and the queue take."""
    if array.held is not None or array.next >= array.size or array.ended_ms:
        return
    marks, position, born = list(array.marks), array.next, []
    opened = state.arrays.open.get(array.id, {})
    waiting = sum(state.kept.jobs[job].state not in LIVE for job in opened)
    unfinished = len(opened)
    while position < array.size and waiting < IN_QUEUE_MAX and not (array.at_most and unfinished >= array.at_most):
        if marks[position] == PENDING:
            marks[position] = OPEN
            born.append(position)
            waiting, unfinished = waiting + 1, unfinished + 1
        position += 1
    if not born:
        return
    # Behind a cap nobody waits for others, only for its own kind.
    is_first = array.next == 0 or not array.at_most
    entered = array = replace(array, marks="".join(marks), next=position)
    if array.edits:
        entered = replace(array, edits={k: edit for k, edit in array.edits.items() if k not in set(born)})
    state.put_array(entered)
    for place in born:
        job = Job(
            id=array.element(place),
            spec=array.element_spec(place),
            state=JobState.WAITING,
            submitted_ms=array.submitted_ms,
            queued_ms=array.submitted_ms if is_first else step.at,
            submitted_by=array.submitted_by,
            trace=array.trace,
            array=array.id,
            array_index=array.index(place),
        )
        state.put_job(with_learnt(state, job, step.at))
        step.moves.append(JobMoved(job=job.id, before=None, after=job.state))


def cancel_array(state: State, fact: CancelRequested, step: Step) -> list[JobId] | None:
    """Cancel what is not in the queue yet; the elements that are jobs are left to the caller.

    None when the number belongs to no array.
    """
    array = state.kept.arrays.get(fact.job)
    if array is not None:
        opened = sorted(state.arrays.open.get(array.id, {}))
        cancelled = LETTERS[JobState.CANCELLED]
        marks = array.marks.replace(PENDING, cancelled).replace(KEPT, cancelled)
        _put(state, replace(array, marks=marks, next=array.size, kept_by={}, edits={}), step)
        return opened
    array = array_of(state, fact.job)
    if array is None:
        return None
    position = array.position(fact.job)
    if array.marks[position] in (PENDING, KEPT):
        _put(state, replace(array, marks=array.marked(position, LETTERS[JobState.CANCELLED])), step)
    return []


def give_up_elements(state: State, number: JobId, reason: Reason, step: Step) -> bool:
    """Elements that are not in the queue and can never run any more end as failed; False when it is about a job.

    The number of an array means all of them that have no terms of their own.
    """
    array = state.kept.arrays.get(number)
    if array is not None:
        ended = [k for k, mark in enumerate(array.marks) if mark in (PENDING, KEPT) and k not in array.edits]
    elif number not in state.kept.jobs and (array := array_of(state, number)) is not None:
        position = array.position(number)
        ended = [position] if array.marks[position] in (PENDING, KEPT) else []
    else:
        return False
    marks = list(array.marks)
    for position in ended:
        marks[position] = LETTERS[JobState.FAILED]
    _put(state, replace(array, marks="".join(marks), over=reason), step)
    return True


def hold_array(state: State, fact: HoldSet, step: Step) -> list[JobId] | None:
    """Let no further element enter the queue, or let them again; the elements that are jobs are left to the caller."""
    array = state.kept.arrays.get(fact.job)
    if array is None:
        return _hold_element(state, fact, step)
    if array.ended_ms:
        return []
    held = Reason(ReasonCode.HELD, {"by": fact.by}) if fact.held else None
    array = replace(array, held=held)
    if not fact.held and KEPT in array.marks:
        # Who releases the array releases all of it.
        array = replace(array, marks=array.marks.replace(KEPT, PENDING), next=0, kept_by={})
    state.put_array(array)
    opened = sorted(state.arrays.open.get(array.id, {}))
    enter_queue(state, array, step)
    step.settings = True
    return opened


def _hold_element(state: State, fact: HoldSet, step: Step) -> list[JobId] | None:
    """One element that is not in the queue yet is passed over from now on, or no longer."""
    array = array_of(state, fact.job)
    if array is None:
        return None
    position = array.position(fact.job)
    before, after = (PENDING, KEPT) if fact.held else (KEPT, PENDING)
    if array.marks[position] != before:
        return []
    kept_by = {k: by for k, by in array.kept_by.items() if k != position}
    if fact.held:
        kept_by[position] = fact.by
    array = replace(array, marks=array.marked(position, after), next=min(array.next, position), kept_by=kept_by)
    state.put_array(array)
    enter_queue(state, array, step)
    step.settings = True
    return []


def edit_array(state: State, fact: JobEdited, step: Step) -> list[JobId]:
    """Change the terms of what is not in the queue yet; the elements that are jobs are left to the caller."""
    array = state.kept.arrays.get(fact.job)
    if array is not None and not array.ended_ms:
        # What is said of the whole array counts for every element, also where an element had its own word.
        edits = {k: merged(edit, fact.edit) for k, edit in array.edits.items()}
        array = replace(array, spec=edited(array.spec, fact.edit), edits=edits, edited=True)
        state.put_array(array)
        opened = sorted(state.arrays.open.get(array.id, {}))
        enter_queue(state, array, step)
        return opened
    element_of = array_of(state, fact.job) if array is None else None
    if element_of is not None:
        position = element_of.position(fact.job)
        if element_of.marks[position] in (PENDING, KEPT):
            own = merged(element_of.edits.get(position, JobEdit()), fact.edit)
            state.put_array(replace(element_of, edits={**element_of.edits, position: own}))
    return []


def _note_end(state: State, job: Job, step: Step) -> None:
    array = state.kept.arrays.get(JobId(job.array))
    if array is not None:
        _put(state, replace(array, marks=array.marked(array.position(job.id), LETTERS[job.state])), step)


def _put(state: State, array: ArrayRecord, step: Step) -> None:
    """Enter a changed array; with nothing pending and nothing open it has ended."""
    if not array.ended_ms and not {PENDING, KEPT, OPEN} & set(array.marks):
        array = replace(array, ended_ms=step.at)
        step.arrays.append(array.id)
        state.kept.sealed.pop(array.id, None)
    state.put_array(array)
    step.touched = True


def _forget_ended(state: State) -> None:
    arrays = state.kept.arrays
    ended = [array for array in arrays.values() if array.ended_ms] if len(arrays) > ENDED_ARRAYS_KEPT else []
    for array in ended[: max(0, len(ended) - ENDED_ARRAYS_KEPT)]:
        state.forget_array(array)
