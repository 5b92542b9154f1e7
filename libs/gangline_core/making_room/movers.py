"""Who could move, and in which parts: whole jobs, or some of their tasks where the others run on meanwhile.

A job moves as a whole: it stops, checkpoints and starts again elsewhere at the size that it has. Where its contract
lets members come and go (`repair`, or elastic independent tasks) some of its tasks may move alone: they end, and others
take their places near those that stay. Rank 0 of torchrun and signal jobs stays where it is.
"""

from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.making_room.losses import is_protected
from gangline_core.pauses.pausing import companions
from gangline_core.placement.gang import Gang, Need, Where
from gangline_core.spec import ResizeKind, is_elastic
from gangline_core.table import Table

PARTS_OF_MAX = 4
"""Of so many tasks every part is thought of; of more, single ones and those of one node."""
PARTS_MAX = 16
"""Parts of one job that are thought of."""


class Mover(Struct, frozen=True):
    """Tasks of a job that would leave together, and what they need elsewhere."""

    job: Job
    tasks: tuple[Task, ...]
    gang: Gang
    lost: int
    """GPU thousandths times ms since the start, which are lost unless it checkpoints."""

    @property
    def is_whole(self) -> bool:
        """True when nothing of the job stays."""
        return len(self.tasks) == len(self.job.tasks)


def movers(table: Table, beneficiary: Job) -> dict[int, list[Mover]]:
    """By job everything of it that may move, all of it first."""
    found: dict[int, list[Mover]] = {}
    for job_id in sorted(table.state.live.get(beneficiary.spec.pool, {})):
        job = table.state.kept.jobs[job_id]
        if job.id == beneficiary.id or not _may_move(table, job):
            continue
        tasks = table.state.tasks_of(job)
        if any(task.stop or task.pause or task.state != TaskState.STARTED for task in tasks):
            continue
        whole = Mover(
            job=job, tasks=tuple(tasks), gang=table.seating.ask(job, job.sizes).gang, lost=_lost(table, job, tasks)
        )
        found[job.id] = [whole, *_parts(table, whole)][:PARTS_MAX]
    return found


def _may_move(table: Table, job: Job) -> bool:
    """True when the job may be stopped now, and nobody uses GPUs of its tasks over the network."""
    if job.state != JobState.RUNNING or not job.spec.preemptible or is_protected(job, table.now) or job.missing:
        return False
    if companions(table.state, job.id):
        return False
    return bool(job.tasks) and not any(role.serves or role.resources.beside for role in job.spec.roles)


def _parts(table: Table, whole: Mover) -> Iterator[Mover]:
    """Some of the job's tasks of one role, where the others may run on without them."""
    job, spec = whole.job, whole.job.spec
    is_loose = is_elastic(spec) and spec.elastic.kind == ResizeKind.TASKS
    is_bound = spec.topology.required in LEVELS_INSIDE_NODE or whole.gang.is_shaped
    if len(whole.tasks) < 2 or is_bound or not (spec.repair_s or is_loose):
        return
    first_stays = spec.elastic.kind in (ResizeKind.TORCHRUN, ResizeKind.SIGNAL)
    for need in whole.gang.needs:
        own = [task for task in whole.tasks if task.role == need.role and not (first_stays and task.rank == 0)]
        for some in _some_of(own):
            if len(some) == len(whole.tasks):
                continue
            stay = [task for task in whole.tasks if task not in some]
            gang = _near(table, whole.gang, replace(need, count=len(some)), stay)
            if gang is not None:
                yield Mover(job=job, tasks=some, gang=gang, lost=_lost(table, job, some))


def _some_of(tasks: list[Task]) -> Iterator[tuple[Task, ...]]:
    if len(tasks) <= PARTS_OF_MAX:
        for size in range(1, len(tasks) + 1):
            yield from combinations(tasks, size)
        return
    by_node: dict[str, list[Task]] = {}
    for task in tasks:
        by_node.setdefault(task.node, []).append(task)
    yield from (tuple(own) for own in by_node.values() if len(own) > 1)
    yield from ((task,) for task in tasks)


def _near(table: Table, gang: Gang, need: Need, stay: list[Task]) -> Gang | None:
    """What some tasks of a gang need, given where the others are: their domain, and their model."""
    models = {task.gpu_model.lower() for task in stay if task.gpu_model}
    if need.wants_gpu and len(models) == 1:
        need = replace(need, models=tuple(models))
    label = dict(gang.levels).get(gang.required)
    where = need.where or Where(selector=tuple(sorted(gang.selector.items())), tolerations=gang.tolerations)
    if label is not None:
        name = table.state.kept.nodes[stay[0].node].labels.get(label)
        if name is None:
            return None
        where = replace(where, selector=tuple(sorted({**dict(where.selector), label: name}.items())))
    return replace(
        gang,
        needs=(need,),
        selector=dict(where.selector),
        tolerations=where.tolerations,
        required="",
        preferred="",
    )


def _lost(table: Table, job: Job, tasks: list[Task] | tuple[Task, ...]) -> int:
    return max(0, table.now - (job.started_ms or table.now)) * sum(task.gpu_milli for task in tasks)
