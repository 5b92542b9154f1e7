"""What stands between a waiting job and its room: which nodes are out, the best there is, what must come free."""

from collections.abc import Mapping

from msgspec import Struct

from gangline_core.door.never_fits import never_fits
from gangline_core.job import Job
from gangline_core.making_room.moves import MovePlan, plan_moves
from gangline_core.reasons import sentence
from gangline_core.reserving.closures import Closures
from gangline_core.state import State
from gangline_core.table import Table
from gangline_core.telling.lacking import Lack, lack_of
from gangline_core.telling.rejections import rejected

NEVER, NOT_NOW = "never", "not now"
GPU_HOUR_MS = 3_600_000


class Excluded(Struct, frozen=True):
    """Nodes that can take none of the job's tasks, for one cause, with the GPUs on them."""

    cause: str
    nodes: int
    gpus: int


class Shortfall(Struct, frozen=True):
    """Why there is no room, in full."""

    verdict: str
    """NEVER when no empty pool could hold the job, else NOT_NOW."""
    excluded: tuple[Excluded, ...] = ()
    able_nodes: int = 0
    """Nodes that could take at least one task now."""
    best: str = ""
    """The best place that exists, as a sentence."""
    missing: str = ""
    """What would have to come free, as a sentence."""
    moves: MovePlan | None = None
    """Running jobs that could move out of the way."""


def shortfall(state: State, job: Job, now: int) -> Shortfall:
    """What a waiting job lacks of room, at its smallest."""
    pool = state.kept.pools[job.spec.pool].pool
    by_cause, able = _excluded(state, job, now)
    excluded = tuple(Excluded(cause=cause, nodes=nodes, gpus=gpus) for cause, (nodes, gpus) in by_cause.items())
    never = never_fits(state.inventory(job.spec.pool), pool, job.spec)
    if never is not None:
        return Shortfall(verdict=NEVER, excluded=excluded, able_nodes=able, best=sentence(never[0]))
    table = Table(state, job.spec.pool, now)
    gang = table.seating.least(job).gang
    if table.seating.placer(table.room, gang) is not None:
        return Shortfall(verdict=NOT_NOW, excluded=excluded, able_nodes=able)
    # Whose placer doubts a place has room, and the reason says which place would do.
    room = table.seating.view(table.room, gang)
    lack = Lack() if table.seating.doubt(room, gang) is not None else lack_of(room, gang)
    return Shortfall(
        verdict=NOT_NOW,
        excluded=excluded,
        able_nodes=able,
        best=lack.best,
        missing=lack.missing,
        moves=plan_moves(state, job, now),
    )


def moves_sentence(plan: MovePlan) -> str:
    """A plan as a user reads it, without whose jobs they are."""
    count = len(plan.moves)
    jobs = "1 running job" if count == 1 else f"{count} running jobs"
    if any(move.tasks < move.of_tasks for move in plan.moves):
        jobs = f"tasks of {jobs}"
    hours = f"{plan.lost_gpu_ms / GPU_HOUR_MS:.1f}"
    return f"It would start at once if {jobs} moved; without checkpoints that would lose {hours} GPU-hours of work."


def _excluded(state: State, job: Job, now: int) -> tuple[Mapping[str, tuple[int, int]], int]:
    """Causes for the role that fewest nodes can take, most nodes first."""
    closed = Closures(state, now).nodes(job.spec)
    found = [rejected(state, job.spec, role, closed) for role in job.spec.roles]
    return min(found, key=lambda entry: entry[1]) if found else ({}, 0)
