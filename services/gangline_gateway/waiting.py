"""How the queue is shown, and why one job is where it is."""

from gangline_core.door.arrays import array_of, as_written, first_waiting
from gangline_core.door.arrays import told as told_of_array
from gangline_core.ids import JobId
from gangline_core.job import SLURM_CODES, Job, JobState
from gangline_core.reasons import Reason, ReasonCode, hint, sentence
from gangline_core.scoring.ageing import waited_ms
from gangline_core.spec import gpu_milli_wanted, task_count
from gangline_core.state import State
from gangline_core.telling.explain import Explanation, QueueLine, explain, queue
from gangline_core.telling.shortfall import Shortfall, moves_sentence
from gangline_gateway.access import sees_job
from gangline_gateway.advice import advice
from gangline_gateway.books import book_of
from gangline_gateway.call import Call
from gangline_gateway.jobs import Filters, shown_job
from gangline_gateway.problems import not_found, wrong_query
from gangline_gateway.show import reason_view
from gangline_wire.limits import most
from gangline_wire.views import (
    ExcludedView,
    ExplanationView,
    MoveView,
    QueueLineView,
    QueueView,
    ShortfallView,
    TermView,
    WaitingForView,
)

POOL_DEFAULT = "default"
OF = ("holder", "user", "group")
"""Numbers of a reason that say whose limit, guarantee or budget it is."""
WAITING_FOR_MAX = 100
"""Different things waited for that one answer tells; every group and user may have a limit of its own."""


async def show_queue(call: Call) -> QueueView:
    """GET /v1/queue: those of the caller's lines that match, with their true positions, and how many wait in all."""
    pool = call.text("pool", POOL_DEFAULT)
    if pool not in call.state.kept.pools:
        raise not_found("such pool")
    filters = Filters(group=call.text("group"), user=call.text("user"), name=call.text("name"))
    limit = call.count("limit", most("page_jobs"), least=1, limit="page_jobs")
    code = call.text("reason")
    if code not in ("", *ReasonCode):
        raise wrong_query("reason", "must be the code of a reason, such as GroupLimit")
    now = call.desk.site.now_ms()
    book, state, caller = book_of(call, pool, now), call.state, call.caller
    reasons: dict[JobId, Reason] = {}
    for candidate in book.candidates:
        job = state.kept.jobs[candidate.job]
        if filters.fits(job) and sees_job(state, caller, job.spec):
            reason = book.reason(job)
            if code in ("", reason.code.value):
                reasons[job.id] = reason
    own = queue(state, pool, now, book=book, sees=lambda job: job.id in reasons, most=limit)
    return QueueView(
        pool=pool,
        waiting=len(book.candidates),
        lines=tuple(_line(state, line, waited_ms=waited_ms(state, line.job, now)) for line in own),
        matching=len(reasons),
        waiting_for=_waiting_for(state, reasons),
    )


def _waiting_for(state: State, reasons: dict[JobId, Reason]) -> tuple[WaitingForView, ...]:
    """What jobs, given in their order, wait for, the most frequent first."""
    found: dict[tuple[str, str], list[JobId]] = {}
    for job, reason in reasons.items():
        of = next((str(reason.numbers[name]) for name in OF if name in reason.numbers), "")
        found.setdefault((reason.code.value, of), []).append(job)
    return tuple(
        WaitingForView(
            code=code,
            jobs=len(jobs),
            gpu_milli=sum(gpu_milli_wanted(state.kept.jobs[job].spec) for job in jobs),
            first=jobs[0],
            sentence=sentence(as_written(state, reasons[jobs[0]])),
            of=of,
        )
        for (code, of), jobs in sorted(found.items(), key=lambda one: -len(one[1]))[:WAITING_FOR_MAX]
    )


async def explain_job(call: Call) -> ExplanationView:
    """GET /v1/jobs/{id}/explain."""
    job = shown_job(call)
    now = call.desk.site.now_ms()
    if job.id not in call.state.kept.jobs:
        return _of_array(call, job)
    told = explain(call.state, job.id, now, book=book_of(call, job.spec.pool, now))
    if told is None:
        raise not_found("such job")
    return ExplanationView(
        job=told.job,
        state=told.state.value,
        slurm=told.slurm,
        sentence=told.sentence,
        code=told.code,
        numbers=told.numbers,
        hint=told.hint,
        pool=told.pool,
        position=told.position,
        waiting=told.waiting,
        score=told.score,
        terms=tuple(TermView(name=name, value=value) for name, value in told.terms),
        rejected=told.rejected,
        start_from_ms=told.start_from_ms,
        start_to_ms=told.start_to_ms,
        confidence=told.confidence,
        start_note=told.start_note,
        notes=(*told.notes, *(advice(call.state, job.spec) if told.state == JobState.WAITING else ())),
        also=tuple(reason_view(call.state, reason, job=told.job) for reason in told.also),
        level_position=told.level_position,
        level_waiting=told.level_waiting,
        shortfall=_shortfall(call, told.shortfall) if told.shortfall is not None else None,
    )


def _shortfall(call: Call, lacks: Shortfall) -> ShortfallView:
    plan = lacks.moves
    moves = []
    for move in plan.moves if plan is not None else ():
        other = call.state.kept.jobs.get(move.job)
        is_seen = other is not None and sees_job(call.state, call.caller, other.spec)
        moves.append(
            MoveView(
                job=move.job if is_seen else 0,
                from_nodes=move.from_nodes,
                to_nodes=move.to_nodes,
                lost_gpu_ms=move.lost_gpu_ms,
                tasks=move.tasks,
                of_tasks=move.of_tasks,
            )
        )
    return ShortfallView(
        verdict=lacks.verdict,
        excluded=tuple(ExcludedView(cause=one.cause, nodes=one.nodes, gpus=one.gpus) for one in lacks.excluded),
        able_nodes=lacks.able_nodes,
        best=lacks.best,
        missing=lacks.missing,
        moves=tuple(moves),
        moves_note=moves_sentence(plan) if plan is not None else "",
    )


def _of_array(call: Call, job: Job) -> ExplanationView:
    """Where an array stands as a whole, or an element that is not in the queue."""
    array = call.state.kept.arrays.get(job.id) or array_of(call.state, job.id)
    said = told_of_array(call.state, array) if array is not None else None
    sentence_of = sentence(job.reason) if job.reason is not None else ""
    is_whole = array is not None and array.id == job.id
    waits = (
        first_waiting(call.state, array) if array is not None and job.state == JobState.WAITING and is_whole else None
    )
    now = call.desk.site.now_ms()
    told = explain(call.state, waits.id, now, book=book_of(call, job.spec.pool, now)) if waits is not None else None
    if told is not None and waits is not None and array is not None and said is not None:
        return _by_its_first(
            job, told, index=array.index(array.position(waits.id)), said=said.sentence, cap=sentence_of
        )
    return ExplanationView(
        job=job.id,
        state=job.state.value,
        slurm=SLURM_CODES[job.state],
        sentence=said.sentence if said is not None and is_whole else sentence_of or "It is not in the queue yet.",
        code=job.reason.code.value if job.reason is not None else "",
        numbers=job.reason.numbers if job.reason is not None else {},
        hint=hint(job.reason, job=array.id if array is not None else job.id) if job.reason is not None else "",
        pool=job.spec.pool,
        notes=(sentence_of,) if sentence_of and is_whole else (),
    )


def _by_its_first(job: Job, told: Explanation, *, index: int, said: str, cap: str) -> ExplanationView:
    """An array that waits, by the first of its elements that is in the queue: what that one waits for, and when."""
    first = f"Element {index}, the first that waits: {told.sentence}"
    return ExplanationView(
        job=job.id,
        state=job.state.value,
        slurm=SLURM_CODES[job.state],
        sentence=said,
        code=told.code,
        numbers=told.numbers,
        hint=told.hint,
        pool=job.spec.pool,
        position=told.position,
        waiting=told.waiting,
        start_from_ms=told.start_from_ms,
        start_to_ms=told.start_to_ms,
        confidence=told.confidence,
        start_note=told.start_note,
        notes=(first, *((cap,) if cap else ())),
    )


def _line(state: State, line: QueueLine, *, waited_ms: int) -> QueueLineView:
    job, spec = line.job, line.job.spec
    return QueueLineView(
        position=line.position,
        id=job.id,
        name=spec.name,
        group=spec.group,
        user=spec.user,
        gpu_milli=gpu_milli_wanted(spec),
        size=task_count(spec),
        level=spec.level,
        priority=spec.priority,
        waited_ms=waited_ms,
        reason=reason_view(state, line.reason, job=job.id),
        score=line.score,
        start_from_ms=line.start.from_ms,
        start_to_ms=line.start.to_ms,
        array_job=job.array,
        array_index=job.array_index,
    )
