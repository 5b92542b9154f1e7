"""In which order evictions should be given up so that what is left costs least: whole places, cheapest first.

Giving back the most valuable victims one by one keeps each single victim cheap, but may leave eight small jobs dying on
one node where a single younger one on another would do. So a second order looks at places: for each node the cheapest
set of victims that makes it hold one task, and nodes in the order of that cost. The cheaper of both plans is taken.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from gangline_core.cluster import Pool
from gangline_core.ids import JobId
from gangline_core.making_room.losses import BY_GUARANTEE, EVICT, WAIT, Loss, effective_priority, work_lost
from gangline_core.placement.gang import Gang
from gangline_core.room.capacity import Room
from gangline_core.spec import GPU_MILLI, ServiceClass

EXACT_MAX = 10
"""Up to so many victims on a node every set of them is weighed."""
Cost = tuple[tuple[bool, int], int, int]
"""Highest class and priority that has to go, work lost in GPU thousandths times ms, and how many go."""
Alone = Mapping[JobId, Cost]
"""What each costs alone."""
FREE_OF_CHARGE: tuple[bool, int] = (False, -(10**18))


def plan_cost(pool: Pool, losses: Sequence[Loss]) -> tuple[Cost, tuple[int, ...]]:
    """What a set of losses costs, smaller is better; of equal ones that of the newest jobs."""
    evicted = [loss for loss in losses if loss.kind == EVICT]
    return _cost(pool, evicted), tuple(sorted(-loss.job.id for loss in evicted))


def cheapest_alone(pool: Pool, losses: Sequence[Loss]) -> list[Loss] | None:
    """What costs nobody a run, and the one eviction that costs least; None where that does not say who should go.

    If it is enough no other set is cheaper, since each that is has an eviction, which costs as much alone. Where others
    shrink or are paused there may be sets without one, and who reclaims a guarantee takes from whoever borrowed most.
    """
    evictions = [loss for loss in losses if loss.kind == EVICT]
    free = [loss for loss in losses if loss.kind == WAIT]
    if not evictions or len(free) + len(evictions) < len(losses):
        return None
    if any(loss.rule == BY_GUARANTEE for loss in evictions):
        return None
    return [*free, min(evictions, key=lambda loss: (_cost(pool, [loss]), -loss.job.id))]


def by_place(pool: Pool, room: Room, gang: Gang, losses: Sequence[Loss]) -> list[Loss] | None:
    """The same losses with evictions in the order of the cheapest places; None where places say nothing new.

    Evictions that reclaim a guarantee keep their order, which is who borrowed most.
    """
    gpus = max((need.gpus for need in gang.needs), default=0)
    evictions = [loss for loss in losses if loss.kind == EVICT]
    if not gpus or len(evictions) < 2 or any(loss.rule == BY_GUARANTEE for loss in evictions):
        return None
    on_row: dict[int, list[tuple[Loss, int]]] = {}
    for loss in evictions:
        freed: dict[int, int] = {}
        for task in (*loss.tasks, *loss.also):
            row = room.layout.row.get(task.node)
            if row is not None:
                freed[row] = freed.get(row, 0) + sum(share.milli for share in task.gpus) // GPU_MILLI
        for row, count in freed.items():
            on_row.setdefault(row, []).append((loss, count))
    mask = gang.mask(room.layout)
    alone = {loss.job.id: _cost(pool, [loss]) for loss in evictions}
    rank: dict[JobId, tuple[Cost, int]] = {}
    for row in sorted(on_row):
        chosen = _cheapest(alone, on_row[row], gpus - int(room.free[row])) if mask[row] else None
        for loss in chosen or ():
            own = (_together(alone, chosen or []), row)
            rank[loss.job.id] = min(own, rank.get(loss.job.id, own))
    last = (((True, 10**18), 0, 0), len(room.nodes))
    others = [loss for loss in losses if loss.kind != EVICT]
    return [*others, *sorted(evictions, key=lambda loss: (rank.get(loss.job.id, last), -loss.job.id))]


def _cheapest(alone: Alone, victims: list[tuple[Loss, int]], missing: int) -> list[Loss] | None:
    """The cheapest of these that free so many GPUs on their node; None when all of them do not."""
    if missing <= 0 or sum(count for _, count in victims) < missing:
        return None
    if len(victims) > EXACT_MAX:
        return _greedy(alone, victims, missing)
    sets = (
        [loss for loss, _ in some]
        for size in range(1, len(victims) + 1)
        for some in combinations(victims, size)
        if sum(count for _, count in some) >= missing
    )
    return min(sets, key=lambda some: (_together(alone, some), [-loss.job.id for loss in some]))


def _greedy(alone: Alone, victims: list[tuple[Loss, int]], missing: int) -> list[Loss]:
    chosen: list[Loss] = []
    for loss, count in sorted(victims, key=lambda entry: (alone[entry[0].job.id], -entry[0].job.id)):
        if missing > 0 and count:
            chosen.append(loss)
            missing -= count
    return chosen


def _together(alone: Alone, some: Sequence[Loss]) -> Cost:
    """What these cost who cost so much alone."""
    costs = [alone[loss.job.id] for loss in some]
    return max([cost[0] for cost in costs], default=FREE_OF_CHARGE), sum([cost[1] for cost in costs]), len(costs)


def _cost(pool: Pool, evicted: Sequence[Loss]) -> Cost:
    bands = [
        (loss.job.service_class != ServiceClass.OPPORTUNISTIC, effective_priority(pool, loss.job.spec))
        for loss in evicted
    ]
    return max(bands, default=FREE_OF_CHARGE), sum(work_lost(loss) for loss in evicted), len(evicted)
