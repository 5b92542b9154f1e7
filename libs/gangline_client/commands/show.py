"""`gangline show`: jobs as a list, or one job with everything known about it."""

from argparse import Namespace
from collections.abc import Iterator

from gangline_client import quantities as q
from gangline_client.commands.listing import list_jobs, time_in_state
from gangline_client.job_names import find_job
from gangline_client.session import Session, emit, repeat, watch_interval
from gangline_client.table import Column, Paint, Row
from gangline_client.words import STATE_PAINT, command_line, job_asks, job_label, state_cell
from gangline_wire import views as v
from gangline_wire.durations import show_seconds

TASK_COLUMNS = (
    Column("TASK"),
    Column("RANK", right=True),
    Column("NODE"),
    Column("GPUS", right=True),
    Column("DEVICES"),
    Column("STATE"),
    Column("TIME", right=True),
    Column("EXIT", right=True),
)
HISTORY_COLUMNS = (Column("WHEN"), Column("AGE", right=True), Column("EVENT"), Column("WHAT", gives_way=True))


async def show(session: Session, args: Namespace) -> int:
    """List jobs, or show the named ones."""

    async def draw() -> None:
        if not args.jobs:
            await list_jobs(session, args)
        for position, text in enumerate(args.jobs):
            if position and session.console.is_for_people:
                session.console.say()
            job = await find_job(session.client, text)
            await (_history(session, job) if args.history else _detail(session, job))

    await repeat(session, every_s=watch_interval(args), draw=draw)
    return 0


async def _history(session: Session, job: int) -> None:
    view = await session.client.history(job)
    names = [event.id for event in view.events]
    emit(session.console, view, names=names, people=lambda: _history_table(session, view))


async def _detail(session: Session, job: int) -> None:
    view = await session.client.job(job)
    if not session.console.is_for_people:
        emit(session.console, view, names=[str(view.id)], people=lambda: None)
        return
    history = await session.client.history(job)
    _facts(session, view)
    if view.tasks:
        session.console.say("\nTasks")
        session.console.table(TASK_COLUMNS, [_task_row(task, now_ms=session.now_ms()) for task in view.tasks])
    if history.events:
        session.console.say("\nHistory")
        _history_table(session, history)


Lines = Iterator[tuple[str, str]]
"""Names and texts of facts; what has no text is not shown."""


def _facts(session: Session, job: v.JobView) -> None:
    console, now_ms = session.console, session.now_ms()
    what = "Array" if job.array is not None else "Job"
    console.say(console.paint(f"{what} {job_label(job)}: {job.name}", Paint.STRONG))
    state = console.paint(job.state, STATE_PAINT.get(job.state, Paint.PLAIN))
    console.fact("State", f"{state} ({job.slurm}), {time_in_state(job, now_ms=now_ms)}")
    for lines in (_standing(job), _terms(job), _lately(job, now_ms=now_ms), _course(job, now_ms=now_ms)):
        for name, text in lines:
            console.fact(name, text)


def _standing(job: v.JobView) -> Lines:
    """Why it is where it is, and whose it is."""
    if job.reason is not None:
        yield "Reason", f"{job.reason.code}: {job.reason.sentence}"
        yield "Hint", job.reason.hint
    yield "Owner", f"{job.user} in {job.group or '/'}"
    yield "Queue", f"pool {job.pool}, level {job.level}, priority {job.priority}, {job.service_class}"
    if job.array is not None:
        yield "Elements", f"{job.array.size} ({job.array.indexes})"
        for one, indexes in job.array.elements.items():
            yield one.capitalize(), f"{job.array.counts[one]}: {indexes}"
    yield "Element of", f"array {job.array_job}; its own number is {job.id}" if job.array_job else ""


def _terms(job: v.JobView) -> Lines:
    """What was asked for."""
    yield "Not before", q.moment(job.not_before_ms) if job.not_before_ms else ""
    yield "Deadline", q.moment(job.deadline_ms) if job.deadline_ms else ""
    if job.spec is not None:
        yield from (("Asks for", asks) for asks in job_asks(job.spec))
    yield "Time limit", show_seconds(job.time_limit_s) if job.time_limit_s else ""
    if job.spec is not None:
        yield "Estimate", show_seconds(job.spec.estimate_s) if job.spec.estimate_s else ""
        yield from (("Command", command_line(role.command)) for role in job.spec.roles)


def _course(job: v.JobView, *, now_ms: int) -> Lines:
    """What became of it so far."""
    yield "Submitted", _moment(job.submitted_ms, now_ms=now_ms)
    yield "Started", _moment(job.started_ms, now_ms=now_ms)
    yield "Ended", _moment(job.ended_ms, now_ms=now_ms)
    yield "Waited", q.duration(job.waited_ms) if job.waited_ms else ""
    yield "Attempts", _attempts(job)
    if job.spec is not None and job.spec.checkpoints:
        yield "Stopped", "goes on later where it stopped (checkpoints)"
    yield "Exit code", "" if job.exit_code is None else str(job.exit_code)
    yield "Labels", ", ".join(f"{key}={value}" for key, value in sorted(job.labels.items()))


def _attempts(job: v.JobView) -> str:
    if not job.attempt:
        return ""
    counts = (("preemption", job.preemptions), ("loss", job.losses), ("retry", job.retries_used))
    plural = {"preemption": "preemptions", "loss": "losses", "retry": "retries"}
    parts = [f"{count} {word if count == 1 else plural[word]}" for word, count in counts if count]
    return f"{job.attempt} ({', '.join(parts)})" if parts else str(job.attempt)


def _lately(job: v.JobView, *, now_ms: int) -> Lines:
    """What an elastic or reporting job is doing, and what it lacks."""
    if job.resize is not None:
        before = job.resize.before
        sizes = " ".join(
            f"{role} {size} as before" if before.get(role) == size else f"{role} {before.get(role, 0)} -> {size}"
            for role, size in job.resize.after.items()
        )
        yield "Resize", f"{sizes}, {job.resize.stage} ({job.resize.why})"
    if job.progress is not None:
        yield "Progress", _progress(job.progress, now_ms=now_ms)
    if job.use is not None:
        low = "; the pool will take its GPUs back" if job.use.is_low else ""
        yield from (("GPU use", _gpu_use(job.use, low)), ("Uses", _cpu_use(job.use)), ("Advice", job.use.advice))
    if any(task.gpu_fence == "not enforced" for task in job.tasks):
        yield "GPU fence", "not enforced: programs are told which GPUs are theirs, and nothing keeps them off others"
    for task, slow in sorted(job.stragglers.items()):
        yield "Slow", f"{task} needs {slow} % of the usual time of a step"
    if job.missing:
        lost = ", ".join(f"{number} {role}" for role, number in sorted(job.missing.items()))
        yield "Missing", f"{lost}, for {q.age(job.missing_ms, now_ms=now_ms)}; placed again when there is room"
    if job.lowered_for:
        yield "Cells", f"taken over by job {job.lowered_for}; it runs on as an opportunistic job"


def _progress(said: v.ProgressView, *, now_ms: int) -> str:
    percent = "" if said.percent is None else f"{said.percent:g} %"
    left = "" if said.remaining_s is None else f"{q.duration(said.remaining_s * 1000)} left"
    step = "" if said.step is None else f"step {said.step}"
    told = f" ({q.age(said.told_ms, now_ms=now_ms)} ago)" if said.told_ms else ""
    return ", ".join(filter(None, (percent, left, step))) + told


def _gpu_use(use: v.UseView, low: str) -> str:
    if use.gpu_percent is None:
        return ""
    tensor = "" if use.tensor_percent is None else f", tensor cores {use.tensor_percent} %"
    return f"{use.gpu_percent} %{tensor} over {q.duration(use.window_s * 1000)}{low}"


def _cpu_use(use: v.UseView) -> str:
    asked = f" of {use.cpu_milli_held / 1000:g}" if use.cpu_milli_held else ""
    cpus = "" if use.cpu_milli is None else f"{use.cpu_milli / 1000:.1f}{asked} CPUs"
    held = f" of {use.memory_mib_held}" if use.memory_mib_held else ""
    memory = "" if use.memory_mib is None else f"{use.memory_mib}{held} MiB of memory at most"
    return ", ".join(filter(None, (cpus, memory)))


def _moment(ms: int, *, now_ms: int) -> str:
    return f"{q.moment(ms)} ({q.age(ms, now_ms=now_ms)} ago)" if ms else ""


def _task_row(task: v.TaskView, *, now_ms: int) -> Row:
    devices = f"{task.gpu_model} {','.join(map(str, task.gpus))}".strip() if task.gpus else "-"
    return [
        task.id,
        str(task.rank),
        task.node,
        q.gpus(task.gpu_milli),
        devices,
        "stopping" if task.stop else state_cell(task.state),
        q.age(task.started_ms, now_ms=now_ms),
        "-" if task.exit_code is None else str(task.exit_code),
    ]


def _history_table(session: Session, history: v.HistoryView) -> None:
    now_ms = session.now_ms()
    rows = [[q.moment(line.at), q.age(line.at, now_ms=now_ms), line.event, line.message] for line in history.events]
    if history.left_out:
        rows.insert(history.left_out_after, ["...", "", "", f"{history.left_out:,} more, too many for one answer"])
    session.console.table(HISTORY_COLUMNS, rows)
