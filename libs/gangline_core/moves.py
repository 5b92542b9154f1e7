"""Which few running jobs would have to move so that a waiting one could start, and what that would cost: a proposal.

A move is a job that stops, checkpoints and goes on elsewhere in room that is free. Nothing is moved by this: the plan
is shown to whoever asks why the job waits. Fewest moves come first, then the least work lost if no checkpoint is made.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from gangline_core.capacity import Room
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState, Task
from gangline_core.losses import is_protected
from gangline_core.placement.gang import Gang, Seats, gang_of
from gangline_core.spec import GPU_MILLI, is_elastic
from gangline_core.state import State
from gangline_core.table import Table

MOVES_MAX = 4
"""Most jobs that a plan moves."""
MOVED_TOGETHER_MAX = 3
"""Most jobs that leave one node."""
MOVABLE_MAX = 12
"""Jobs of one node that are thought of, cheapest first."""
PLANS_TRIED_MAX = 400
"""Sets of jobs that are tried."""


class Moved(Struct, frozen=True):
    """One job that would go on elsewhere."""

    job: JobId
    from_nodes: tuple[NodeId, ...]
    to_nodes: tuple[NodeId, ...]
    lost_gpu_ms: int
    """GPU time since its start, which is lost unless it checkpoints."""


class MovePlan(Struct, frozen=True):
    """Moves after which the job would fit, and where it would go."""

    moves: tuple[Moved, ...]
    nodes: tuple[NodeId, ...]

    @property
    def lost_gpu_ms(self) -> int:
        """GPU time lost if nobody checkpoints."""
        return sum(move.lost_gpu_ms for move in self.moves)


def plan_moves(state: State, job: Job, now: int) -> MovePlan | None:
    """The fewest moves that would let a waiting job start at its smallest; None when none do, or none are needed."""
    if job.state != JobState.WAITING:
        return None
    table = Table(state, job.spec.pool, now)
    gang = table.seating.least(job).gang
    place = table.seating.placer
    if not gang.whole_gpus or gang.whole_gpus > int(table.room.free.sum()) or place(table.room, gang) is not None:
        return None
    leaving = _movable(state, job, now)
    singles = list(_sets_by_node(table.room, gang, leaving))
    for chosen in _tried(singles, gang):
        plan = _try(table, gang, chosen, now)
        if plan is not None:
            return plan
    return None


def _movable(state: State, beneficiary: Job, now: int) -> dict[NodeId, list[tuple[Job, Task]]]:
    """Jobs of one member that may be moved, by node, cheapest first."""
    found: dict[NodeId, list[tuple[Job, Task]]] = {}
    for job_id in sorted(state.live.get(beneficiary.spec.pool, {})):
        job = state.kept.jobs[job_id]
        is_fixed = not job.spec.preemptible or is_protected(job, now) or is_elastic(job.spec)
        if job.state != JobState.RUNNING or is_fixed or len(job.tasks) != 1:
            continue
        (task,) = state.tasks_of(job)
        if task.gpus and not task.stop:
            found.setdefault(task.node, []).append((job, task))
    for jobs in found.values():
        jobs.sort(key=lambda entry: (_lost(entry[0], entry[1], now), entry[0].id))
        del jobs[MOVABLE_MAX:]
    return found


def _sets_by_node(
    room: Room, gang: Gang, leaving: dict[NodeId, list[tuple[Job, Task]]]
) -> Iterator[tuple[int, int, tuple[tuple[Job, Task], ...]]]:
    """Per node the sets of jobs whose leaving gives one task its GPUs: how many, what milli they hold, and which."""
    gpus = max(need.gpus for need in gang.needs)
    mask = gang.mask(room.layout)
    for node, jobs in sorted(leaving.items()):
        row = room.layout.row.get(node)
        if row is None or not mask[row] or int(room.free[row]) >= gpus:
            continue
        missing = gpus - int(room.free[row])
        for size in range(1, MOVED_TOGETHER_MAX + 1):
            for some in combinations(jobs, size):
                held = sum(task.gpu_milli for _, task in some)
                if held // GPU_MILLI >= missing:
                    yield size, held, some


def _tried(
    singles: list[tuple[int, int, tuple[tuple[Job, Task], ...]]], gang: Gang
) -> Iterator[list[tuple[Job, Task]]]:
    """Sets to try, fewest moves and least room to find elsewhere first; several nodes where the gang has many tasks."""
    singles.sort(key=lambda entry: (entry[0], entry[1], [job.id for job, _ in entry[2]]))
    for _, _, some in singles[:PLANS_TRIED_MAX]:
        yield list(some)
    if gang.tasks < 2:
        return
    together: list[tuple[Job, Task]] = []
    nodes: set[NodeId] = set()
    for _, _, some in singles:
        if some[0][1].node not in nodes and len(together) + len(some) <= MOVES_MAX:
            nodes.add(some[0][1].node)
            together = [*together, *some]
            yield together


def _try(table: Table, gang: Gang, leaving: Sequence[tuple[Job, Task]], now: int) -> MovePlan | None:
    """The plan in which these leave, the gang takes its seats, and each of them finds another place."""
    room, place = table.room.copy(), table.seating.placer
    for _, task in leaving:
        room.give(task)
    seats = place(room, gang)
    if seats is None:
        return None
    _take(room, seats)
    moves: list[Moved] = []
    for job, task in sorted(leaving, key=lambda entry: (-entry[1].gpu_milli, entry[0].id)):
        found = place(room, gang_of(job.spec, job.sizes, table.pool.pool))
        if found is None:
            return None
        _take(room, found)
        to_nodes = tuple(dict.fromkeys(one.node for one in found.tasks))
        moves.append(
            Moved(
                job=job.id, from_nodes=(task.node,), to_nodes=to_nodes, lost_gpu_ms=_lost(job, task, now) // GPU_MILLI
            )
        )
    nodes = tuple(dict.fromkeys(one.node for one in seats.tasks))
    return MovePlan(moves=tuple(moves), nodes=nodes)


def _take(room: Room, seats: Seats) -> None:
    for one in seats.tasks:
        room.take(one)


def _lost(job: Job, task: Task, now: int) -> int:
    return max(0, now - (job.started_ms or now)) * task.gpu_milli
