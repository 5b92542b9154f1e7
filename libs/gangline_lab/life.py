"""What was done with a job besides leaving it waiting: starts, moves, changes of size, pauses, stops, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.cluster import model_of
from gangline_core.counted import counted
from gangline_core.door.arrays import as_written, label
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState, Outcome, Task
from gangline_core.reason_words import told_rule
from gangline_core.reasons import sentence
from gangline_core.state import State
from gangline_core.step import Step

NODES_SHOWN = 4
ENDED_BY_ITSELF = (Outcome.SUCCEEDED, Outcome.FAILED, JobState.SUCCEEDED, JobState.FAILED)


class Happening(Struct, frozen=True):
    """Something that was done with the job, and when."""

    seq: int
    """Log sequence of the message that did it."""
    at: int
    what: str


def where(state: State, tasks: Iterable[Task | f.TaskPlacement]) -> str:
    """Machines, with the GPUs on each: "n1 (8 H100), n2 (8 H100)"."""
    found: dict[str, Counter[str]] = {}
    for task in tasks:
        models = found.setdefault(task.node, Counter())
        node = state.kept.nodes.get(task.node)
        models.update((model_of(node, gpu.index) if node is not None else "") or "GPU" for gpu in task.gpus)
    shown = [
        f"{node} ({', '.join(f'{count} {model}' for model, count in models.items())})" if models else node
        for node, models in list(found.items())[:NODES_SHOWN]
    ]
    more = len(found) - NODES_SHOWN
    return ", ".join(shown) + (f" and {counted(more, 'more machine')}" if more > 0 else "")


def happenings(state: State, message: Message, step: Step, job: Job, stood: str) -> list[Happening]:
    """What one message did with the job; `state` and `job` are after it, `stood` says where it was before."""
    moves = [moved for moved in step.moves if moved.job == job.id]
    told = [
        what
        for fact in message.facts
        if isinstance(fact, f.RoundDecided) and job.id not in step.voided
        for what in _of_round(state, fact, job, stood=stood, states={moved.after for moved in moves})
    ]
    decided = [fact for fact in message.facts if isinstance(fact, f.RoundDecided | f.ShareDecided)]
    is_told = bool(told)
    for moved in moves:
        if moved.after == JobState.STARTING:
            told.append(_placed(state, job, decided))
        elif not is_told and (what := _moved(state, job, moved.before, moved.after)):
            told.append(what)
    return [Happening(seq=message.seq, at=message.at, what=what) for what in told]


def _placed(state: State, job: Job, decided: Iterable[f.RoundDecided | f.ShareDecided]) -> str:
    text = f"placed on {where(state, state.tasks_of(job))} (attempt {job.attempt})"
    placed = next((one for fact in decided for one in fact.placements if one.job == job.id), None)
    if placed is None:
        return text
    notes = {
        "before others, in nobody's way": placed.backfilled,
        "first for its age": placed.first_by_age,
        "to be left alone for as long as it was kept from work": placed.aged,
        f"beside job {label(state, placed.beside)} on the same GPUs": bool(placed.beside),
    }
    return ", ".join([text, *(note for note, holds in notes.items() if holds)])


def _of_round(state: State, fact: f.RoundDecided, job: Job, *, stood: str, states: set[JobState]) -> Iterator[str]:
    """What a round did with the job while it was at work; a change that did not hold any more moved nothing."""
    if JobState.STOPPING in states:
        yield from _stopped(state, fact, job, stood)
    if JobState.PAUSED in states:
        for paused in fact.pauses:
            if paused.job == job.id:
                yield f"paused for job {label(state, paused.beneficiary)} ({told_rule(paused.rule)})"
    if JobState.RUNNING in states:
        hosts = [label(state, host) for own, host in fact.packings if own == job.id]
        yield from (f"went on beside job {host} on the same GPUs" for host in hosts)
        if job.id in fact.resumes and not hosts:
            yield "went on where it stood still"
    if JobState.RESIZING in states:
        yield from _resized(state, fact, job)
    for lower in fact.lowerings:
        if lower.job == job.id:
            yield f"gave up its cells{_for(state, job, lower.beneficiary)}, and went on as an opportunistic job"


def _stopped(state: State, fact: f.RoundDecided, job: Job, stood: str) -> Iterator[str]:
    for again in fact.restarts:
        if again.job == job.id:
            yield f"stopped on {stood}, to start again on {where(state, again.placement.tasks)}{_because(again.why)}"
    for eviction in fact.evictions:
        if eviction.job == job.id:
            yield f"stopped on {stood} for job {label(state, eviction.beneficiary)} ({told_rule(eviction.rule)})"


def _resized(state: State, fact: f.RoundDecided, job: Job) -> Iterator[str]:
    why = job.resize.why if job.resize is not None else ""
    for growth in fact.growths:
        if growth.job == job.id:
            yield f"given {counted(len(growth.tasks), 'more task')} on {where(state, growth.tasks)}{_because(why)}"
    for less in fact.shrinks:
        if less.job == job.id:
            yield f"{counted(len(less.tasks), 'task')} of it left{_for(state, job, less.beneficiary)}"


def _moved(state: State, job: Job, before: JobState | None, after: JobState) -> str:
    """A move of which no round decided; times on hold, and the first wait, are told elsewhere."""
    words = "" if job.reason is None else sentence(as_written(state, job.reason))
    if after in ENDS:
        return f"ended ({after.value}): {words}"
    match before, after:
        case _, JobState.STOPPING if (job.outcome or job.state) in ENDED_BY_ITSELF:
            return ""  # Its end says the same as soon as its room is free.
        case _, JobState.STOPPING | JobState.PAUSED:
            return f"{'stopped' if after == JobState.STOPPING else 'paused'}: {words}"
        case JobState.STOPPING, JobState.WAITING:
            return "waited again"
        case JobState.PAUSED, JobState.RUNNING:
            return "went on where it stood still"
        case _:
            return ""


def _for(state: State, job: Job, other: JobId) -> str:
    if other and other != job.id:
        return f" for job {label(state, other)}"
    return _because(job.resize.why if job.resize is not None else "")


def _because(why: str) -> str:
    return f": {why}" if why else ""
