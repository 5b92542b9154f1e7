"""Which gangs move besides those whose size changes, so that large ones stand together.

Pollux (OSDI 2021, section 4.2) searches over whole placements, and every job whose placement changes restarts. Here
sizes are chosen first (see `pollux`), and the round seats all that start again together (see `anew`). Two sorts of
gangs join them at their present size: one that stands on more nodes than it needs and wins more by standing closer than
the restart costs, as its own reports tell; and a small one on the emptiest node that keeps a larger one apart.
Only gangs of kind `restart` move, and none that has not yet worked for as long as its last change cost.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gangline_core.elasticity.anew import Wish, nodes_beyond, pack, wish
from gangline_core.elasticity.goodput import Grad, Limits, Perf, optimise
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import cost_s, left_s
from gangline_core.ids import JobId
from gangline_core.placement.gang import Seats
from gangline_core.room.capacity import Room
from gangline_core.spec import GPU_MILLI, ResizeKind

TRIES_MAX = 8
"""Small gangs that are tried to be moved away in one decision."""

Packed = Sequence[tuple[Wish, Seats]]


class Model(Protocol):
    """How a job learns, as far as is known."""

    @property
    def perf(self) -> Perf | None:
        """Its speed by size; None before it reported any step time."""

    @property
    def grad(self) -> Grad:
        """Its gradients."""

    @property
    def limits(self) -> Limits:
        """Batches it may use."""


def clearing(
    view: View, jobs: Sequence[tuple[Elastic, Model]], targets: Sequence[Target], per_node: int
) -> list[Target]:
    """Moves of weighed jobs beside these changes of size."""
    sizes = {target.job.id: target.size for target in targets}
    models = {one.job.id: model for one, model in jobs}
    able = [one for one, _ in jobs if one.job.spec.elastic.kind == ResizeKind.RESTART and len(one.job.sizes) == 1]
    rest = {one.job.id: one for one in able if one.job.id not in sizes and _rested(one, view.now)}
    wishes = [_wish(view, one, sizes[one.job.id], why="goodput") for one in able if one.job.id in sizes]
    closer = [one for one in rest.values() if _pays(view, one, models[one.job.id], per_node)]
    wishes += [_wish(view, one, one.size, why="closer together") for one in closer]
    packed = pack(view.table, view.table.room, wishes)
    tried: set[JobId] = set()
    while len(tried) < TRIES_MAX and (apart := _apart(view, packed)):
        mover = _smallest_in_the_way(view, packed, rest, tried | {one.job.id for one in wishes}, apart)
        if mover is None:
            break
        tried.add(mover.job.id)
        more = [*wishes, _wish(view, mover, mover.size, why="makes room")]
        again = pack(view.table, view.table.room, more)
        if _sum_apart(view, again) < _sum_apart(view, packed) and len(again) >= len(packed):
            wishes, packed = more, again
    return [
        Target(job=one.job, role=one.role.name, size=one.sizes[0], why=one.why, moves=True)
        for one, _ in packed
        if one.moves
    ]


def _wish(view: View, one: Elastic, size: int, *, why: str) -> Wish:
    return wish(view.table, one.job, one.role, (size,), why=why, moves=size == one.size)


def _rested(one: Elastic, now: int) -> bool:
    last_ms = one.job.resize.stage_ms if one.job.resize is not None else one.job.started_ms
    return now - last_ms >= 2000 * cost_s(one)


def _pays(view: View, one: Elastic, model: Model, per_node: int) -> bool:
    """True when the gang stands apart and would win more by standing closer than the restart costs."""
    nodes = len({task.node for task in view.state.tasks_of(one.job)})
    least = -(-one.size * one.role.resources.whole_gpus // per_node)
    if nodes <= least or model.perf is None:
        return False
    asked = np.array([one.size, one.size])
    slow, fast = optimise(model.perf, model.grad, model.limits, np.array([nodes, least]), asked).goodput.tolist()
    return bool(left_s(one, view.now) * (fast - slow) > cost_s(one) * fast)


def _apart(view: View, packed: Packed) -> list[Wish]:
    return [one for one, seats in packed if nodes_beyond(view.table, seats) > 0]


def _sum_apart(view: View, packed: Packed) -> int:
    return sum(max(0, nodes_beyond(view.table, seats)) for _, seats in packed)


def _smallest_in_the_way(
    view: View, packed: Packed, rest: dict[JobId, Elastic], known: set[JobId], apart: Sequence[Wish]
) -> Elastic | None:
    """The smallest gang on the emptiest node that is not empty, smaller than one that stands apart."""
    room: Room = view.table.room.copy()
    for moving, _ in packed:
        for task in moving.own:
            room.give(task)
    for _, seats in packed:
        for place in seats.tasks:
            room.take(place)
    free = (room.milli == GPU_MILLI).sum(axis=1)
    largest = max(-gang.rank[0] for gang in apart)
    row_of = view.table.frozen.layout.row
    by_node: dict[int, list[Elastic]] = {}
    for job_id, one in sorted(rest.items()):
        if job_id not in known and one.size * one.gpu_milli < largest:
            for node in sorted({task.node for task in view.state.tasks_of(one.job)} & row_of.keys()):
                by_node.setdefault(row_of[node], []).append(one)
    rows = sorted((row for row in by_node if free[row] > 0), key=lambda row: (-int(free[row]), row))
    return next((min(by_node[row], key=lambda one: (one.size * one.gpu_milli, one.job.id)) for row in rows), None)
