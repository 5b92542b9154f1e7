"""`gangline why`: state, reason with its numbers, hint, place in the queue, score, and what is known of the start."""

from argparse import Namespace

from gangline_client import quantities as q
from gangline_client.console import Console
from gangline_client.job_names import find_job
from gangline_client.session import Session, emit, repeat, watch_interval
from gangline_client.table import Column, Paint
from gangline_client.words import STATE_PAINT, start_range
from gangline_core.reasons import Reason, ReasonCode, readable_numbers
from gangline_wire import views as v

TERM_COLUMNS = (Column("TERM"), Column("VALUE", right=True))
EXCLUDED_COLUMNS = (
    Column("NODES", right=True),
    Column("GPUS", right=True),
    Column("CANNOT TAKE IT BECAUSE"),
)
REJECTED_COLUMNS = (Column("NODES", right=True), Column("CANNOT TAKE IT BECAUSE"))


async def why(session: Session, args: Namespace) -> int:
    """Explain one job."""
    job = await find_job(session.client, args.job)

    async def draw() -> None:
        view = await session.client.explain(job)
        emit(session.console, view, names=[view.code or view.state], people=lambda: _tell(session, view))

    await repeat(session, every_s=watch_interval(args), draw=draw)
    return 0


def _tell(session: Session, view: v.ExplanationView) -> None:
    console = session.console
    state = console.paint(view.state, STATE_PAINT.get(view.state, Paint.PLAIN))
    console.say(f"Job {view.job} is {state} ({view.slurm}). {view.sentence}".rstrip())
    console.fact("Reason", view.code)
    console.fact("Numbers", _numbers(view))
    console.fact("Hint", view.hint)
    console.fact("Position", _position(view))
    _tell_start(session, view)
    for further in view.also:
        console.fact("Also", f"{further.sentence} {further.hint}".rstrip())
    for note in view.notes:
        console.fact("Note", note)
    _tell_shortfall(console, view.shortfall)
    _tell_score(console, view)
    if view.shortfall is not None and view.shortfall.excluded:
        console.say()
        rows = [[str(one.nodes), str(one.gpus), one.cause] for one in view.shortfall.excluded]
        console.table(EXCLUDED_COLUMNS, rows)
    elif view.rejected:
        console.say()
        causes = sorted(view.rejected.items(), key=lambda item: (-item[1], item[0]))
        console.table(REJECTED_COLUMNS, [[str(count), cause] for cause, count in causes])


def _tell_shortfall(console: Console, lacks: v.ShortfallView | None) -> None:
    """Never or not now, the best there is, what must come free, and which moves would help."""
    if lacks is None:
        return
    console.fact("Verdict", "can never run here" if lacks.verdict == "never" else "fits, but not now")
    console.fact("Best", lacks.best)
    console.fact("Missing", lacks.missing)
    console.fact("Moves", lacks.moves_note)
    for move in lacks.moves:
        job = f"job {move.job}" if move.job else "another group's job"
        part = f" ({move.tasks} of {move.of_tasks} tasks)" if move.tasks < move.of_tasks else ""
        console.fact("", f"{job}{part}: {', '.join(move.from_nodes)} -> {', '.join(move.to_nodes)}")


def _numbers(view: v.ExplanationView) -> str:
    """The reason's numbers in the units of its sentence; of a code that only a newer platform knows as they are."""
    numbers = view.numbers
    if view.code in set(ReasonCode):
        numbers = readable_numbers(Reason(ReasonCode(view.code), numbers))
    return ", ".join(f"{name.removesuffix('_ms')}={value}" for name, value in sorted(numbers.items()))


def _position(view: v.ExplanationView) -> str:
    """The place in the whole queue, and in the job's level when there are others."""
    if not view.position:
        return ""
    whole = f"{view.position} of {view.waiting} waiting in pool {view.pool}"
    if view.level_waiting in (0, view.waiting):
        return whole
    return f"{whole}; {view.level_position} of {view.level_waiting} in its level"


def _tell_start(session: Session, view: v.ExplanationView) -> None:
    """The expected start as a range, or honestly that nobody knows; silent for a job that does not wait."""
    if view.position or view.start_from_ms is not None:
        text = start_range(view.start_from_ms, view.start_to_ms, now_ms=session.now_ms())
        confidence = f" ({view.confidence} confidence)" if view.confidence and view.start_from_ms is not None else ""
        session.console.fact("Start", text + confidence)
        session.console.fact("", view.start_note)


def _tell_score(console: Console, view: v.ExplanationView) -> None:
    if view.score is None:
        return
    console.say()
    rows = [[term.name, q.millionths(term.value)] for term in view.terms]
    console.table(TERM_COLUMNS, [*rows, ["score", q.millionths(view.score)]])
