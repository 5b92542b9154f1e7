"""What the public feed says of each change: one small documented event per move of a job. Pure."""

from gangline_core.facts import Fact, JobRejected
from gangline_core.fold import Message
from gangline_core.job import Job, JobState
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.state import State
from gangline_core.step import JobMoved, Step
from gangline_wire.requests import EventLine

NAMES: dict[JobState, str] = {
    JobState.HELD: "Held",
    JobState.WAITING: "Queued",
    JobState.STARTING: "Placed",
    JobState.RUNNING: "Running",
    JobState.RESIZING: "Resizing",
    JobState.SUSPENDED: "Suspended",
    JobState.STOPPING: "Stopping",
    JobState.SUCCEEDED: "Succeeded",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
    JobState.TIMED_OUT: "TimedOut",
    JobState.LOST: "Lost",
}
"""Name of the event that tells of entering each state, unless SPECIAL knows better."""

SPECIAL: dict[tuple[JobState | None, JobState], str] = {
    (None, JobState.WAITING): "Admitted",
    (None, JobState.HELD): "Admitted",
    (JobState.HELD, JobState.WAITING): "Released",
    (JobState.SUSPENDED, JobState.WAITING): "Released",
    (JobState.STOPPING, JobState.WAITING): "Requeued",
    (JobState.RESIZING, JobState.RUNNING): "Resized",
}


def public_events(state: State, message: Message, step: Step) -> list[EventLine]:
    """Events of one applied message, in order; `state` is the state after it."""
    events = [_of_move(state, moved, message, index) for index, moved in enumerate(step.moves)]
    rejected = [fact for fact in message.facts if isinstance(fact, JobRejected)]
    events.extend(_of_rejection(fact, message, len(events) + index) for index, fact in enumerate(rejected))
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
        numbers=dict(reason.numbers) if reason is not None and moved.after != JobState.RUNNING else {},
    )


def _text(state: State, job: Job, after: JobState, reason: Reason | None) -> str:
    if after == JobState.STARTING:
        nodes = sorted({task.node for task in state.tasks_of(job)})
        return f"Placed on {', '.join(nodes[:8])}{' ...' if len(nodes) > 8 else ''} (attempt {job.attempt})."
    return sentence(reason) if reason is not None and after not in (JobState.RUNNING, JobState.RESIZING) else ""


def _of_rejection(fact: Fact, message: Message, index: int) -> EventLine | None:
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
        message=sentence(fact.reason),
        numbers=dict(fact.reason.numbers),
    )
