"""Why is a job where it is, when may it start, and what would change that? One answer for API, command line, console.

Every waiting job has a reason that is true now: gates are judged again on the present state, and what the last round
found about room is repeated with today's position beside it. An expected start is a range with what it rests on
(`CONFIDENCE`), or honestly nothing. `Book` is the work that all jobs of one pool share.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.ageing import starving, waiting_since_ms
from gangline_core.dues import dues_note
from gangline_core.facts import Candidate
from gangline_core.forecast import Start, limit_forecast, pool_forecast
from gangline_core.gates import judge
from gangline_core.ids import JobId
from gangline_core.job import KUBERNETES_CONDITIONS, LIVE, SLURM_CODES, Job, JobState, TaskState
from gangline_core.ordering import order
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import Reason, ReasonCode, hint, sentence, utc
from gangline_core.rejections import rejected_nodes
from gangline_core.run_times import Basis, RunTimes
from gangline_core.spec import gpu_milli_wanted
from gangline_core.state import State

CONFIDENCE = {Basis.LIMIT: "high", Basis.ESTIMATE: "medium", Basis.HISTORY: "low"}
"""What a start rests on -> how far to trust it."""
_RESTS_ON = {
    Basis.LIMIT: "the time limits of the jobs before it",
    Basis.ESTIMATE: "time limits and users' estimates",
    Basis.HISTORY: "how long recent jobs ran",
}
GATE_CODES = frozenset(
    {
        ReasonCode.DEPENDENCY,
        ReasonCode.NOT_BEFORE,
        ReasonCode.GROUP_LIMIT,
        ReasonCode.USER_LIMIT,
        ReasonCode.BORROW_LIMIT,
        ReasonCode.NOT_LENT,
        ReasonCode.BUDGET_SHORT,
        ReasonCode.SINGLETON,
        ReasonCode.DEADLINE,
        ReasonCode.BUDGET_EXHAUSTED,
    }
)
"""Reasons that the gates give; recorded ones are over when the gates no longer give them."""
LIMIT_CODES = frozenset(
    {ReasonCode.GROUP_LIMIT, ReasonCode.USER_LIMIT, ReasonCode.BORROW_LIMIT, ReasonCode.NOT_LENT}
)
SIMILAR_MAX = 20
"""Most similar jobs whose waits are told."""
STOP_MARGIN_MS = 5_000
"""How long after its grace a stopped task may need to be seen gone."""


class Expectation(Struct, frozen=True):
    """An expected start: a range in ms with a confidence, or neither and why not."""

    note: str
    from_ms: int | None = None
    to_ms: int | None = None
    confidence: str = ""
    """"high", "medium" or "low"; empty without a range."""


class Explanation(Struct, frozen=True):
    """Everything there is to say about where one job stands."""

    job: JobId
    state: JobState
    slurm: str
    condition: str
    sentence: str
    reason: Reason | None = None
    """None when the job is not held up by anything: it starts or runs."""
    hint: str = ""
    pool: str = ""
    position: int = 0
    """1 is next; 0 when it does not wait."""
    waiting: int = 0
    """Jobs waiting in the pool."""
    score: int | None = None
    """In millionths; None when the job does not wait."""
    terms: tuple[tuple[str, int], ...] = ()
    """Name and value in millionths of every term of the score."""
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


class Book:
    """One pool's waiting jobs in order, with reasons and expected starts, at one moment.

    It is good for as long as the state stays at the sequence it was made at.
    """

    def __init__(self, state: State, pool: str, now: int) -> None:
        """Look at the pool as the state has it now."""
        self.state = state
        self.pool = state.kept.pools[pool]
        self.now = now
        verdicts = judge(state, pool, now)
        self.kept_out = {**verdicts.kept_out, **verdicts.given_up}
        ordered = order(state, self.pool, [state.kept.jobs[job] for job in sorted(state.waiting.get(pool, {}))], now)
        self.terms = ordered.terms
        self.candidates: list[Candidate] = ordered.candidates
        self.position = {candidate.job: k for k, candidate in enumerate(self.candidates, start=1)}
        self._times = RunTimes(state, pool)
        self._starts: dict[JobId, Start | None] | None = None

    def reason(self, job: Job) -> Reason:
        """Why a waiting job waits, as things are now."""
        gate = self.kept_out.get(job.id)
        if gate is not None:
            return gate
        if job.reason is not None and job.reason.code not in GATE_CODES:
            return job.reason
        return Reason(ReasonCode.NOT_YET_CONSIDERED, {"position": self.position[job.id]})

    def start(self, job: Job) -> Expectation:
        """When a waiting job may start."""
        claim = self.state.kept.claims.get(job.id)
        if claim is not None:
            return self._after_victims(job)
        code = self.reason(job).code
        if code == ReasonCode.BUDGET_EXHAUSTED:
            return Expectation(note="Nobody can tell: it starts when the group's budget is raised.")
        if code == ReasonCode.DEPENDENCY_FAILED:
            return Expectation(note="Never: the next round ends it.")
        if code == ReasonCode.DEPENDENCY:
            return self._after_dependency(job)
        if code == ReasonCode.NO_ELIGIBLE_NODE:
            return Expectation(note="Nobody can tell: it starts when a node that may take it comes back or joins.")
        foreseen = self._foreseen().get(job.id)
        reserved_ms = next((r.start_ms for r in self.pool.reservations if r.job == job.id), None)
        if reserved_ms is not None:
            return self._reserved(reserved_ms, foreseen)
        if foreseen is None:
            return Expectation(note=self._unknown_note())
        if code in ROOM_CODES and foreseen.latest_ms <= self.now:
            # The forecast knows sums only; the round looked at the nodes, and it is the one to believe.
            return Expectation(note="Nobody can tell: there is enough in sum, but not where it could be used.")
        note = f"Rests on {_RESTS_ON[foreseen.basis]}, in today's order; it may be earlier when it fits into a gap."
        if code in LIMIT_CODES:
            note = f"Not before the limit has room again; rests on {_RESTS_ON[foreseen.basis]}."
        not_before_ms = job.spec.not_before_ms
        return Expectation(
            note=note,
            from_ms=max(foreseen.soonest_ms, not_before_ms),
            to_ms=max(foreseen.latest_ms, not_before_ms),
            confidence=CONFIDENCE[Basis.HISTORY if code in LIMIT_CODES else foreseen.basis],
        )

    def _foreseen(self) -> dict[JobId, Start | None]:
        if self._starts is None:
            jobs = [self.state.kept.jobs[candidate.job] for candidate in self.candidates]
            codes = {job: reason.code for job, reason in self.kept_out.items()}
            free = [job for job in jobs if codes.get(job.id) in (None, ReasonCode.NOT_BEFORE) and not _is_shut_out(job)]
            limited = [job for job in jobs if codes.get(job.id) in LIMIT_CODES]
            self._starts = {
                **pool_forecast(self.state, self.pool.pool.name, free, times=self._times, now=self.now),
                **limit_forecast(self.state, limited, times=self._times, now=self.now),
            }
        return self._starts

    def _reserved(self, reserved_ms: int, foreseen: Start | None) -> Expectation:
        from_ms = min(foreseen.soonest_ms, reserved_ms) if foreseen else self.now
        live = [self.state.kept.jobs[job] for job in self.state.live.get(self.pool.pool.name, {})]
        is_bounded = all(job.spec.time_limit_s or job.state == JobState.STOPPING for job in live)
        return Expectation(
            note=f"Room is reserved for it from {utc(reserved_ms)}; it starts earlier when jobs end earlier.",
            from_ms=max(self.now, from_ms),
            to_ms=max(self.now, reserved_ms),
            confidence="high" if is_bounded else "medium",
        )

    def _after_victims(self, job: Job) -> Expectation:
        ends = [self.now]
        for name in self.state.kept.claims[job.id].victims:
            task = self.state.kept.tasks.get(name)
            if task is not None:
                grace_ms = self.state.kept.jobs[task.job].spec.grace_s * 1000
                ends.append((task.stop_ms or self.now) + grace_ms + STOP_MARGIN_MS)
        note = "Room is being cleared for it; the range ends with the longest grace of those who leave."
        return Expectation(note=note, from_ms=self.now, to_ms=max(ends), confidence="high")

    def _after_dependency(self, job: Job) -> Expectation:
        """As late as the last of the jobs it follows; whether there is room then, nobody says."""
        from_ms, to_ms, basis = self.now, self.now, Basis.LIMIT
        for dependency in job.spec.after:
            other = self.state.job(JobId(dependency.job))
            if other is None or other.ended_ms:
                continue
            span = self._times.remaining(other, self.now) if other.state in LIVE else None
            if span is None:
                return Expectation(note=f"Nobody can tell: it waits for job {other.id}, whose end is not known.")
            from_ms, to_ms = max(from_ms, self.now + span.soonest_ms), max(to_ms, self.now + span.latest_ms)
            basis = min(basis, span.basis)
        note = f"When the jobs it follows have ended, if there is room then; rests on {_RESTS_ON[basis]}."
        return Expectation(note=note, from_ms=from_ms, to_ms=to_ms, confidence=CONFIDENCE[Basis.HISTORY])

    def _unknown_note(self) -> str:
        live = [self.state.kept.jobs[job] for job in sorted(self.state.live.get(self.pool.pool.name, {}))]
        endless = sum(self._times.remaining(job, self.now) is None for job in live)
        if endless:
            jobs = "a running job has" if endless == 1 else f"{endless} running jobs have"
            return f"Nobody can tell: {jobs} neither a time limit nor an estimate, and nothing like it has run before."
        return "Nobody can tell: what runs now does not leave enough when it ends, or a job before it may never end."


def _is_shut_out(job: Job) -> bool:
    """True when no node takes it now, so that it stands in nobody's way."""
    return job.reason is not None and job.reason.code == ReasonCode.NO_ELIGIBLE_NODE


def explain(state: State, job_id: JobId, now: int, *, book: Book | None = None) -> Explanation | None:
    """Why the job is where it is; None when it is not known. A `book` of its pool at `now` saves work."""
    job = state.job(job_id)
    if job is None:
        return None
    explanation = Explanation(
        job=job.id,
        state=job.state,
        slurm=SLURM_CODES[job.state],
        condition=KUBERNETES_CONDITIONS[job.state],
        reason=job.reason,
        sentence=sentence(job.reason) if job.reason else _progress(state, job),
        hint=hint(job.reason, job=job.id) if job.reason else "",
        pool=job.spec.pool,
        notes=tuple(_notes(state, job, now)),
    )
    if job.state != JobState.WAITING:
        return explanation
    return _waiting(explanation, book or Book(state, job.spec.pool, now), job)


def queue(state: State, pool: str, now: int, *, book: Book | None = None) -> list[QueueLine]:
    """The pool's waiting jobs in order, each with its reason and expected start."""
    book = book or Book(state, pool, now)
    lines = []
    for position, candidate in enumerate(book.candidates, start=1):
        job = state.kept.jobs[candidate.job]
        reason = book.reason(job)
        lines.append(
            QueueLine(
                position=position,
                job=job,
                reason=reason,
                sentence=sentence(reason),
                hint=hint(reason, job=job.id),
                score=candidate.score,
                start=book.start(job),
            )
        )
    return lines


def _waiting(explanation: Explanation, book: Book, job: Job) -> Explanation:
    """The explanation with what only a waiting job has."""
    position = book.position[job.id]
    candidate, reason, start = book.candidates[position - 1], book.reason(job), book.start(job)
    return replace(
        explanation,
        reason=reason,
        sentence=sentence(reason),
        hint=hint(reason, job=job.id),
        position=position,
        waiting=len(book.candidates),
        score=candidate.score,
        terms=tuple(zip(book.terms, candidate.terms, strict=True)),
        rejected=_rejected(book.state, job),
        start_from_ms=start.from_ms,
        start_to_ms=start.to_ms,
        confidence=start.confidence,
        start_note=start.note,
    )


def _rejected(state: State, job: Job) -> dict[str, int]:
    """Causes for the role that fewest nodes can take."""
    found = [rejected_nodes(state, job.spec, role.resources) for role in job.spec.roles]
    return min(found, key=lambda entry: entry[1])[0] if found else {}


def _progress(state: State, job: Job) -> str:
    """Where a job that nothing holds up stands."""
    tasks = state.tasks_of(job)
    nodes = len({task.node for task in tasks})
    where = f"{len(tasks)} {_plural('task', len(tasks))} on {nodes} {_plural('node', nodes)}"
    match job.state:
        case JobState.STARTING:
            started = sum(task.state != TaskState.PLACED for task in tasks)
            return f"Starting: {started} of {where} have started."
        case JobState.RUNNING:
            return f"Running since {utc(job.started_ms)}: {where}."
        case JobState.RESIZING:
            return f"Changing its size while it runs: {where}."
        case JobState.STOPPING:
            return f"Stopping: {where} are not gone yet."
        case JobState.WAITING | JobState.HELD | JobState.SUSPENDED:
            return "Waiting."
        case JobState.SUCCEEDED | JobState.FAILED | JobState.CANCELLED | JobState.TIMED_OUT | JobState.LOST:
            return f"Ended at {utc(job.ended_ms)}."


def _notes(state: State, job: Job, now: int) -> Iterable[str]:
    if job.state == JobState.WAITING:
        policy = state.pool_of(job).policy
        if starving(waiting_since_ms(state, [job]), policy=policy, now=now)[0]:
            yield f"It has waited longer than {policy.starvation_s} s, so it goes before everything younger."
        dues = dues_note(state, job) if job.reason is not None and job.reason.code in ROOM_CODES else None
        if dues:
            yield dues
    if job.preemptions:
        yield f"Preempted {job.preemptions} {_plural('time', job.preemptions)}; earlier waits count towards its age."
    if job.losses:
        yield f"Lost its machines {job.losses} {_plural('time', job.losses)}; that costs it no retry."
    if job.retries_used:
        yield f"{job.retries_used} of {job.spec.retries} {_plural('retry', job.spec.retries)} used."
    if job.state == JobState.WAITING:
        waits = _similar_waits(state, job)
        if waits:
            median_s = waits[len(waits) // 2] // 1000
            yield f"The last {len(waits)} ended {_plural('job', len(waits))} of this size waited {median_s} s (median)."


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


def _plural(word: str, number: int) -> str:
    if number == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
