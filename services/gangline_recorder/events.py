"""What the public feed says of each change: one small documented event per move of a job. Pure."""

from gangline_core.counted import counted
from gangline_core.door.array_record import ArrayRecord, array_text
from gangline_core.door.arrays import as_written, counts, lookup, standing_of
from gangline_core.door.edits import given
from gangline_core.facts import (
    Fact,
    GpuTrespassed,
    JobAdmitted,
    JobEdited,
    JobRejected,
    JobTopped,
    JobUsed,
    ResizeAsked,
    ResizeConfirmed,
    ResizeFailed,
    StragglersSeen,
)
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import STATE_WORDS, Job, JobState, Resize
from gangline_core.reasons import Reason, ReasonCode, sentence, utc
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_core.step import JobMoved, Step
from gangline_wire.requests import EventLine

NAMES = STATE_WORDS
"""Name of the event that tells of entering each state, unless SPECIAL knows better."""

SPECIAL: dict[tuple[JobState | None, JobState], str] = {
    (None, JobState.WAITING): "Admitted",
    (None, JobState.HELD): "Admitted",
    (JobState.HELD, JobState.WAITING): "Released",
    (JobState.SUSPENDED, JobState.WAITING): "Released",
    (JobState.STOPPING, JobState.WAITING): "Requeued",
    (JobState.RESIZING, JobState.RUNNING): "Resized",
    (JobState.PAUSED, JobState.RUNNING): "Resumed",
}


def public_events(state: State, message: Message, step: Step) -> list[EventLine]:
    """Events of one applied message, in order; `state` is the state after it."""
    events = [_of_move(state, moved, message, index) for index, moved in enumerate(step.moves)]
    # Every kind of event has numbers of its own, so that no two events of a message have the same.
    first = len(events)
    for tell in (_of_array_begin, _of_act, _of_rejection):
        events.extend(tell(state, fact, message, first + index) for index, fact in enumerate(message.facts))
        first += len(message.facts)
    ended = [array for number in step.arrays if (array := state.kept.arrays.get(number)) is not None]
    events.extend(_of_array_end(state, array, message, first + index) for index, array in enumerate(ended))
    return [event for event in events if event is not None]


def _of_move(state: State, moved: JobMoved, message: Message, index: int) -> EventLine | None:
    job = state.job(moved.job)
    if job is None:
        return None
    name = SPECIAL.get((moved.before, moved.after)) or NAMES[moved.after]
    reason = job.reason
    if moved.after == JobState.STOPPING and reason is not None and reason.code == ReasonCode.PREEMPTED:
        name = "Preempted"
    return EventLine(
        id=f"{message.seq}-{index}",
        at=message.at,
        event=name,
        job=job.id,
        group=job.spec.group,
        user=job.spec.user,
        name=job.spec.name,
        message=_text(state, job, moved.after, reason),
        numbers=_place_in_array(job)
        | (dict(reason.numbers) if reason is not None and moved.after != JobState.RUNNING else {}),
    )


def _place_in_array(job: Job) -> dict[str, int | str]:
    return {"array": job.array, "index": job.array_index} if job.array else {}


def _of_array_begin(state: State, fact: Fact, message: Message, index: int) -> EventLine | None:
    """An array was admitted as a whole; its elements have events of their own."""
    if not isinstance(fact, JobAdmitted) or fact.spec.array is None:
        return None
    text = f"Array {array_text(fact.spec.array)}."
    return _line(message, index, event="Admitted", job=fact.job, spec=fact.spec, text=text)


def _of_array_end(state: State, array: ArrayRecord, message: Message, index: int) -> EventLine:
    """The last element of an array ended."""
    standing = standing_of(state, array)
    counted = ", ".join(f"{count} {one.value}" for one, count in counts(state, array).items())
    text = f"All elements ended: {counted}."
    return _line(message, index, event=NAMES[standing], job=array.id, spec=array.spec, text=text)


def _of_act(state: State, fact: Fact, message: Message, index: int) -> EventLine | None:
    """Somebody changed a job after its submission."""
    match fact:
        case JobEdited():
            changes = ", ".join(_term(name, value) for name, value in given(fact.edit).items())
            event, text = "Edited", f"{changes}, by {fact.by}{_because(fact.why)}."
        case JobTopped():
            event, text = "Topped", f"Put first by {fact.by}{_because(fact.why)}."
        case ResizeAsked():
            wish = f"{counted(fact.size, 'task')} of {fact.role}" if fact.size else f"any size of {fact.role}"
            event, text = "SizeAsked", f"{fact.by} asked for {wish}."
        case ResizeFailed():
            event, text = "ResizeFailed", f"Change {fact.number} of its size got stuck while {fact.stage.value}."
        case ResizeConfirmed():
            event, text = "ResizeConfirmed", f"The gang works at {counted(fact.size, 'task')} (change {fact.number})."
        case JobUsed() if fact.is_low:
            used = f"{fact.gpu_percent} % over {fact.window_s} s"
            event, text = "UnderUsed", f"Its GPUs were used {used}; the pool will take them back if that goes on."
        case GpuTrespassed():
            event, text = (
                "Trespassed",
                f"Processes of {fact.task} are on GPU {fact.gpu} of {fact.node}, which is others'.",
            )
        case StragglersSeen() if fact.slow:
            slow = ", ".join(f"{task} ({percent} %)" for task, percent in sorted(fact.slow.items()))
            event, text = "Straggling", f"Members that need longer for a step than the others: {slow}."
        case _:
            return None
    job = lookup(state, fact.job)
    return None if job is None else _line(message, index, event=event, job=fact.job, spec=job.spec, text=text)


def _term(name: str, value: object) -> str:
    """A changed term as people read it."""
    match value:
        case dict():
            return f"{name} = {','.join(f'{key}={text}' for key, text in sorted(value.items())) or 'none'}"
        case int() if name.endswith("_ms"):
            return f"{name.removesuffix('_ms')} = {utc(value) if value else 'none'}"
        case bool():
            return f"{name} = {str(value).lower()}"
        case _:
            return f"{name} = {value}"


def _because(why: str) -> str:
    return f" ({why})" if why else ""


def _line(message: Message, index: int, *, event: str, job: JobId, spec: JobSpec, text: str) -> EventLine:
    return EventLine(
        id=f"{message.seq}-{index}",
        at=message.at,
        event=event,
        job=job,
        group=spec.group,
        user=spec.user,
        name=spec.name,
        message=text,
    )


def _text(state: State, job: Job, after: JobState, reason: Reason | None) -> str:
    if after == JobState.STARTING:
        nodes = sorted({task.node for task in state.tasks_of(job)})
        return f"Placed on {', '.join(nodes[:8])}{' ...' if len(nodes) > 8 else ''} (attempt {job.attempt})."
    if after == JobState.RESIZING:
        return "" if job.resize is None else _sizes(job.resize)
    if reason is None or after == JobState.RUNNING:
        return ""
    return sentence(as_written(state, reason))


def _sizes(change: Resize) -> str:
    """From how many tasks to how many, and why."""
    roles = [
        f"from {change.before.get(role, 0)} to {counted(size, 'task')} of {role}"
        for role, size in change.after.items()
        if change.before.get(role, 0) != size
    ]
    text = ", ".join(roles)
    return f"{text[:1].upper()}{text[1:]}{f': {change.why}' if change.why else ''}." if roles else ""


def _of_rejection(state: State, fact: Fact, message: Message, index: int) -> EventLine | None:
    if not isinstance(fact, JobRejected):
        return None
    return EventLine(
        id=f"{message.seq}-{index}",
        at=message.at,
        event="Rejected",
        job=0,
        group=fact.spec.group,
        user=fact.spec.user,
        name=fact.spec.name,
        message=sentence(as_written(state, fact.reason)),
        numbers=dict(fact.reason.numbers),
    )
