"""Migration for locality: a gang that stands far apart starts again closer together when room has come free for it.

Xiao et al., "Gandiva", OSDI 2018: jobs are moved on departures of others, to the same machine first, then to the same
rack. Only jobs whose change of size is a restart move, since they are made to start again from a checkpoint. A job that
reported step times inside one node and over several is judged by them; of any other GAIN_PERCENT is expected. The time
won until its end must be more than the restart costs. Each move ends on a smaller level, so moves come to an end.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from gangline_core.elasticity.fit import fitted
from gangline_core.elasticity.goodput import throughput
from gangline_core.elasticity.view import Elastic, Target, View, begins_again, calm_until_ms, elastic
from gangline_core.elasticity.worth import cost_s, left_s
from gangline_core.job import Job, JobState
from gangline_core.placement.gang import Gang, Seats, gang_of
from gangline_core.placement.ranks import level_of
from gangline_core.sizes.causes import is_new
from gangline_core.sizes.resizing import is_active
from gangline_core.spec import ResizeKind

GAIN_PERCENT = 10
MOVES_MAX = 4
"""Gangs moved by one proposal."""


def locality(view: View) -> list[Target]:
    """Gangs that can stand closer together, oldest first; what one takes no other is promised."""
    targets: list[Target] = []
    for one in at_rest(view, lambda job: job.spec.elastic.kind == ResizeKind.RESTART):
        if len(targets) == MOVES_MAX:
            break
        seats = closer(view, one.job)
        if seats is None or not _pays(view, one, seats):
            continue
        for place in seats.tasks:
            view.table.room.take(place)
        targets.append(Target(job=one.job, role=one.role.name, size=one.size, why="closer together", moves=True))
    return targets


def at_rest(view: View, may_move: Callable[[Job], bool]) -> Iterator[Elastic]:
    """Running jobs at rest that may start again elsewhere, elastic or not, by id."""
    for job_id in sorted(view.state.live.get(view.pool, {})):
        job = view.state.kept.jobs[job_id]
        able = may_move(job) and len(job.sizes) == 1 and not job.asked
        rests = job.state == JobState.RUNNING and not job.winding_down and not is_active(job)
        able = able and begins_again(view.state, job, view.now)
        if able and rests and view.now >= calm_until_ms(job) and is_new(view.state, job.id):
            yield elastic(view.state, job, next(role for role in job.spec.roles if role.name in job.sizes))


def closer(view: View, job: Job) -> Seats | None:
    """Seats for the whole gang on a smaller level than it has, beside what it has now; None when there are none."""
    table = view.table
    gang = same_models(gang_of(job.spec, job.sizes, table.pool.pool), job, view)
    tasks, ladder = table.state.tasks_of(job), gang.ladder()
    present = ladder.index(level_of(table.frozen.layout, gang.levels, tasks))
    if len({task.node for task in tasks}) < 2:
        return None
    seats = table.seating.placer(table.room, gang)
    return seats if seats is not None and ladder.index(seats.level) < present else None


def same_models(gang: Gang, job: Job, view: View) -> Gang:
    """The gang on the model it runs on: a move is not a change of GPUs."""
    models = tuple(sorted({task.gpu_model.lower() for task in view.state.tasks_of(job) if task.gpu_model}))
    return replace(gang, needs=tuple(replace(need, models=models) for need in gang.needs)) if models else gang


def _pays(view: View, one: Elastic, seats: Seats) -> bool:
    before = len({task.node for task in view.state.tasks_of(one.job)})
    after = len({place.node for place in seats.tasks})
    percent = _gain_percent(one, before, after)
    return left_s(one, view.now) * percent // (100 + percent) > cost_s(one)


def _gain_percent(one: Elastic, before: int, after: int) -> int:
    """How much faster it is expected to be on fewer nodes."""
    points = one.progress.points if one.progress is not None else ()
    if not any(point.nodes == 1 and point.members > 1 for point in points) or not any(p.nodes > 1 for p in points):
        return GAIN_PERCENT if after < before else GAIN_PERCENT // 2
    perf, batch = fitted(points), points[-1].batch
    slow, fast = (
        float(throughput(perf, nodes=nodes, members=one.size, batch=batch, gathered=0)) for nodes in (before, after)
    )
    return max(0, round(100 * (fast / slow - 1)))
