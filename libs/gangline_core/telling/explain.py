"""Why is a job where it is, when may it start, and what would change that? One answer for API, command line, console.

Every waiting job has a reason that is true now: gates are judged again on the present state, and what the last round
found about room is repeated with today's position beside it. An expected start is a range with what it rests on
(see `foresight.expected`), or honestly nothing. `Book` is the work that all jobs of one pool share.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.counted import counted
from gangline_core.door.arrays import as_written
from gangline_core.foresight.expected import Expectation
from gangline_core.ids import JobId
from gangline_core.job import SLURM_CODES, Job, JobState, TaskState
from gangline_core.limits.dues import dues_note
from gangline_core.pauses.held_up import held_up_note
from gangline_core.pauses.packing import packed_note
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import Reason, hint, sentence, utc
from gangline_core.reserving.closures import window_note
from gangline_core.scoring.ageing import is_overdue, may_go_first, starving_wait_ms
from gangline_core.spec import gpu_milli_wanted
from gangline_core.state import State
from gangline_core.telling.asked_size import asked_size_note
from gangline_core.telling.book import Book
from gangline_core.telling.left_to_work import left_to_work_note
from gangline_core.telling.not_to_be_stopped import not_stopped_note
from gangline_core.telling.shortfall import Shortfall, shortfall
from gangline_core.telling.yield_note import yield_note

SIMILAR_MAX = 20
"""Most similar jobs whose waits are told."""


class Explanation(Struct, frozen=True):
    """Everything there is to say about where one job stands."""

    job: JobId
    state: JobState
    slurm: str
    sentence: str
    reason: Reason | None = None
    """None when the job is not held up by anything: it starts or runs."""
    hint: str = ""
    pool: str = ""
    also: tuple[Reason, ...] = ()
    """What else would keep it back if the reason were gone."""
    position: int = 0
    """1 is next; 0 when it does not wait."""
    level_position: int = 0
    """The same among the jobs of its queue level."""
    level_waiting: int = 0
    waiting: int = 0
    """Jobs waiting in the pool."""
    score: int | None = None
    """In millionths; None when the job does not wait."""
    terms: tuple[tuple[str, int], ...] = ()
    """Name and value in millionths of every term of the score."""
    shortfall: Shortfall | None = None
    """What it lacks of room, in full; None when it does not wait."""
    rejected: dict[str, int] = {}
    """Nodes that cannot take one of its tasks now, by cause."""
    start_from_ms: int | None = None
    start_to_ms: int | None = None
    confidence: str = ""
    start_note: str = ""
    """What the expected start rests on, or why there is none."""
    notes: tuple[str, ...] = ()
    """Further things worth knowing: preemptions, age, how long similar jobs waited."""

    @property
    def code(self) -> str:
        """The reason's code, empty when nothing holds the job up."""
        return self.reason.code if self.reason else ""

    @property
    def numbers(self) -> dict[str, int | str]:
        """The reason's numbers."""
        return self.reason.numbers if self.reason else {}


class QueueLine(Struct, frozen=True):
    """One waiting job in queue order."""

    position: int
    job: Job
    reason: Reason
    sentence: str
    hint: str
    score: int
    start: Expectation


def explain(state: State, job_id: JobId, now: int, *, book: Book | None = None) -> Explanation | None:
    """Why the job is where it is; None when it is not known. A `book` of its pool at `now` saves work."""
    job = state.job(job_id)
    if job is None:
        return None
    explanation = Explanation(
        job=job.id,
        state=job.state,
        slurm=SLURM_CODES[job.state],
        reason=job.reason,
        sentence=sentence(as_written(state, job.reason)) if job.reason else _progress(state, job),
        hint=hint(as_written(state, job.reason), job=job.id) if job.reason else "",
        pool=job.spec.pool,
        notes=tuple(_notes(state, job, now)),
    )
    if job.state != JobState.WAITING:
        return explanation
    return _waiting(explanation, book or Book(state, job.spec.pool, now), job)


def queue(
    state: State,
    pool: str,
    now: int,
    *,
    book: Book | None = None,
    sees: Callable[[Job], bool] = lambda job: True,
    most: int | None = None,
) -> list[QueueLine]:
    """The pool's waiting jobs in order, each with its reason and expected start.

    Of the jobs that somebody `sees`, at most so many from the front: the others cost no look at their start.
    """
    book = book or Book(state, pool, now)
    lines: list[QueueLine] = []
    for position, candidate in enumerate(book.candidates, start=1):
        job = state.kept.jobs[candidate.job]
        if len(lines) == most:
            break
        if not sees(job):
            continue
        reason = book.reason(job)
        written = as_written(state, reason)
        lines.append(
            QueueLine(
                position=position,
                job=job,
                reason=reason,
                sentence=sentence(written),
                hint=hint(written, job=job.id),
                score=candidate.score,
                start=book.start(job),
            )
        )
    return lines


def _waiting(explanation: Explanation, book: Book, job: Job) -> Explanation:
    """The explanation with what only a waiting job has."""
    position = book.position[job.id]
    candidate, reason, start = book.candidates[position - 1], book.reason(job), book.start(job)
    lacks = shortfall(book.state, job, book.now)
    written = as_written(book.state, reason)
    level_position, level_waiting = book.level_position(job)
    return replace(
        explanation,
        reason=reason,
        sentence=sentence(written),
        hint=hint(written, job=job.id),
        also=book.also(job),
        position=position,
        level_position=level_position,
        level_waiting=level_waiting,
        waiting=len(book.candidates),
        score=candidate.score,
        terms=tuple(zip(book.terms, candidate.terms, strict=True)),
        rejected={excluded.cause: excluded.nodes for excluded in lacks.excluded},
        shortfall=lacks,
        start_from_ms=start.from_ms,
        start_to_ms=start.to_ms,
        confidence=start.confidence,
        start_note=start.note,
    )


def _progress(state: State, job: Job) -> str:
    """Where a job that nothing holds up stands."""
    tasks = state.tasks_of(job)
    nodes = len({task.node for task in tasks})
    where = f"{counted(len(tasks), 'task')} on {counted(nodes, 'node')}"
    match job.state:
        case JobState.STARTING:
            started = sum(task.state != TaskState.PLACED for task in tasks)
            return f"Starting: {started} of {where} have started."
        case JobState.RUNNING:
            return f"Running since {utc(job.started_ms)}: {where}."
        case JobState.RESIZING:
            return f"Changing its size while it runs: {where}."
        case JobState.PAUSED:
            return f"Paused: {where}."
        case JobState.STOPPING:
            return f"Stopping: {where} are not gone yet."
        case JobState.WAITING | JobState.HELD | JobState.SUSPENDED:
            return "Waiting."
        case JobState.SUCCEEDED | JobState.FAILED | JobState.CANCELLED | JobState.TIMED_OUT | JobState.LOST:
            return f"Ended at {utc(job.ended_ms)}."


def _notes(state: State, job: Job, now: int) -> Iterable[str]:
    if job.state == JobState.WAITING:
        policy = state.pool_of(job).policy
        if is_overdue(state, job, policy, now):
            yield _overdue_note(state, job, policy)
        dues = dues_note(state, job) if job.reason is not None and job.reason.code in ROOM_CODES else None
        if dues:
            yield dues
    for note in (asked_size_note, not_stopped_note, left_to_work_note, yield_note, held_up_note, window_note):
        if (told := note(state, job, now)) is not None:
            yield told
    if (packed := packed_note(state, job)) is not None:
        yield packed
    if job.preemptions:
        yield f"Preempted {counted(job.preemptions, 'time')}; earlier waits count towards its age."
    if job.losses:
        yield f"Lost its machines {counted(job.losses, 'time')}; that costs it no retry."
    if job.retries_used:
        yield f"{job.retries_used} of {counted(job.spec.retries, 'retry')} used."
    if job.state == JobState.WAITING:
        waits = _similar_waits(state, job)
        if waits:
            median_s = waits[len(waits) // 2] // 1000
            yield f"The last {counted(len(waits), 'ended job')} of this size waited {median_s} s (median)."


def _overdue_note(state: State, job: Job, policy: Policy) -> str:
    """Whether a job that has waited for long goes first now, and if not, what it waits for."""
    told = f"It has waited longer than {starving_wait_ms(job, policy) // 1000} s"
    if may_go_first(state, job.spec.pool, policy):
        return f"{told}, so it goes before everything younger."
    return (
        f"{told}, but jobs that went first for that hold {policy.starvation_percent} % of the pool: until some of them "
        "end the ordering says who goes next."
    )


def _similar_waits(state: State, job: Job) -> list[int]:
    """Sorted waits in ms of the last ended jobs of the pool that asked for about as many GPUs."""
    size = gpu_milli_wanted(job.spec).bit_length()
    waits: list[int] = []
    for ended in reversed(state.kept.ended):
        other = state.kept.jobs.get(ended)
        is_like = other is not None and other.spec.pool == job.spec.pool and other.first_started_ms
        if other is not None and is_like and gpu_milli_wanted(other.spec).bit_length() == size:
            waits.append(other.waited_ms)
            if len(waits) == SIMILAR_MAX:
                break
    return sorted(waits)
