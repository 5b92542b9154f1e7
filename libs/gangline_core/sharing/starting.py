"""The round has a job start on the GPUs of others, if everything else that it needs is free there."""

from collections.abc import Sequence

from msgspec.structs import replace

from gangline_core.facts import Placement, TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Job, Task
from gangline_core.limits.quota import JOBS
from gangline_core.pauses.pausing import companions
from gangline_core.room.holds import kept_fault, placed_amounts
from gangline_core.sharing.beside import fits_beside, places_beside, without_time
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State
from gangline_core.table import Table


def start_beside(table: Table, job: Job, host: JobId, places: Sequence[Task | TaskPlacement], *, milli: int) -> bool:
    """The job starts in these places with so much of the time of each GPU, unless something else is missing there.

    That time others give up.
    """
    tasks = places_beside(job, places, milli=milli)
    amounts = {**placed_amounts(table.state, tasks), JOBS: 1}
    # A guest may have all of it soon.
    most = amounts if milli else {**placed_amounts(table.state, places_beside(job, places, milli=GPU_MILLI)), JOBS: 1}
    if not fits_beside(table.room, tasks) or table.ledger.fault(job, most) is not None:
        return False
    placement = Placement(job=job.id, attempt=job.attempt + 1, tasks=tasks, port=table.port_for(tasks), beside=host)
    if not _may_stand(table.state, tasks) or kept_fault(table.state, job, placement) is not None:
        return False
    for part in without_time(tasks):
        for room in (table.room, table.guarded):
            if room is not None:
                room.take(part)
    table.count(job, amounts)
    if milli:
        _give_their_part(table, host, tasks, milli=milli)
    table.placements.append(placement)
    return True


def _give_their_part(table: Table, host: JobId, tasks: Sequence[TaskPlacement], *, milli: int) -> None:
    """Those who work there count less below limits by the part that comes, as the fold has it (`share_out`)."""
    started = (one.job for one in table.placements if host in (one.job, one.beside))
    there = list(dict.fromkeys((host, *companions(table.state, host), *started)))
    for place, name in enumerate(there):
        after = 0 if milli == GPU_MILLI else _part(place, of=len(there) + 1)
        less = _part(place, of=len(there)) - after
        amounts = placed_amounts(table.state, [_time_alone(task, less) for task in tasks])
        table.count(table.state.kept.jobs[name], {dimension: -amount for dimension, amount in amounts.items()})


def _part(place: int, *, of: int) -> int:
    """The part of a GPU's time of one of so many; the first has what does not divide."""
    part = GPU_MILLI // of
    return part if place else GPU_MILLI - part * (of - 1)


def _time_alone(task: TaskPlacement, milli: int) -> TaskPlacement:
    """So much of the time of the task's GPUs, and nothing else."""
    gpus = tuple(replace(share, milli=milli, memory_mib=0) for share in task.gpus)
    return replace(task, gpus=gpus, cpu_milli=0, memory_mib=0, devices={})


def _may_stand(state: State, tasks: Sequence[TaskPlacement]) -> bool:
    """True where nodes take work and no GPU of these has failed: whoever works there stays all the same."""
    for place in tasks:
        node = state.kept.nodes.get(place.node)
        if node is None or not node.takes_work:
            return False
        whole = {gpu.index for gpu in node.gpus if gpu.healthy}
        if any(share.index not in whole for share in place.gpus):
            return False
    return True
