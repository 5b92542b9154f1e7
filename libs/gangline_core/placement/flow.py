"""All tasks of a gang at once, by a flow of least cost from tasks to free slots of nodes; `batch` has many jobs flow.

Source: Firmament (Gog et al., OSDI 2016) with the load-balancing costs of its "octopus" model: the arc into a node
costs 100 for every slot that is taken below it, so that each further task there is dearer. A slot is one GPU, or one
CPU task. Flows know no resource vectors: tasks of several GPUs or of parts of one are placed one after the other by
the same costs, and so is a gang whose flow does not hold once CPU and memory are counted. The solver is scipy's
assignment by shortest augmenting paths.
"""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gangline_core.facts import TaskPlacement
from gangline_core.placement.devices import NodeView
from gangline_core.placement.each import by_keys, each, is_free_of_wishes, options
from gangline_core.placement.fit import slots
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.models import Choice
from gangline_core.placement.ranks import in_rank_order
from gangline_core.room.capacity import NO_KIND, Flags, Ints, Room

PER_TAKEN = 100
"""Cost of a slot for every slot of its node that is taken already."""
NEVER = 1 << 40
"""Cost of an arc that does not exist; whoever flows there stays unscheduled."""
TASKS_MAX = 512
"""Larger gangs are placed one task after the other."""


def min_cost_flow(room: Room, gang: Gang) -> Seats | None:
    """The gang's single-GPU and CPU tasks in one solution of least cost."""
    if is_free_of_wishes(gang) and 1 < gang.tasks <= TASKS_MAX and all(is_unit(need) for need in gang.needs):
        for choice in options(room, gang):
            tasks = _solve_gang(room, gang, choice)
            if tasks is not None:
                return in_rank_order(room.layout, gang, tasks)
    return each(room, gang, by_keys(_keys), keys=_keys)


def assign(costs: NDArray[np.int64], unscheduled: Sequence[int]) -> list[int | None]:
    """The slot of each task (rows) so that the sum of costs is least; None for a task that had better wait.

    `costs` has one column per slot, NEVER where the task cannot go; `unscheduled` is what waiting costs each task.
    """
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]  # no hints; heavy

    tasks, free = costs.shape
    waiting = np.full((tasks, tasks), NEVER, dtype=np.int64)
    np.fill_diagonal(waiting, unscheduled)
    rows, columns = linear_sum_assignment(np.hstack([costs, waiting]).astype(np.float64))
    found: list[int | None] = [None] * tasks
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        found[row] = column if column < free and costs[row, column] < NEVER else None
    return found


def is_unit(need: Need) -> bool:
    """True when each task takes one slot: a GPU, or none at all."""
    return need.gpus == 1 or not need.wants_gpu


def _solve_gang(room: Room, gang: Gang, choice: Choice) -> list[TaskPlacement] | None:
    mask = gang.mask(room.layout)
    taken = taken_by(room)
    holds = [held_by(room, replace(need, count=gang.tasks), choice[k], mask) for k, need in enumerate(gang.needs)]
    spare = np.maximum.reduce(holds)
    nodes = np.flatnonzero(spare)
    # The slots of one node cost more and more; no more than the gang has tasks are of use.
    depth = np.minimum(spare[nodes], gang.tasks)
    node = np.repeat(nodes, depth)
    order = np.arange(len(node)) - np.repeat(np.cumsum(depth) - depth, depth)
    price = PER_TAKEN * (taken[node] + order)
    cheapest = np.lexsort((node, price))[: gang.tasks * len(gang.needs)]
    node, order, price = node[cheapest], order[cheapest], price[cheapest]
    tasks = [(k, need.first_index + i) for k, need in enumerate(gang.needs) for i in range(need.count)]
    costs = np.stack([np.where(order < holds[k][node], price, NEVER) for k, _ in tasks])
    found = assign(costs, [NEVER - 1] * len(tasks))
    if None in found:
        return None
    return seat_flow(
        room,
        gang,
        choice,
        [(k, index, int(node[s])) for (k, index), s in zip(tasks, found, strict=True) if s is not None],
    )


def seat_flow(room: Room, gang: Gang, choice: Choice, tasks: list[tuple[int, int, int]]) -> list[TaskPlacement] | None:
    """The tasks where the flow sent them; None when a node does not hold all that flowed there."""
    views: dict[int, NodeView] = {}
    done: list[TaskPlacement] = []
    for k, index, row in tasks:
        view = views.setdefault(row, NodeView(room, row))
        places = (view.seat(gang.needs[k], kinds, index) for kinds in choice[k])
        place = next((place for place in places if place is not None), None)
        if place is None:
            return None
        done.append(place)
    return done


def held_by(room: Room, need: Need, models: tuple[tuple[int, ...], ...], mask: Flags) -> Ints:
    """How many such tasks each node holds, on any of these models."""
    found = np.zeros(len(mask), dtype=np.int64)
    for kinds in models:
        found += slots(room, need, kinds, mask)
    return found


def taken_by(room: Room) -> Ints:
    """How many GPUs of each node are not wholly free."""
    owned = (room.layout.kind != NO_KIND).sum(axis=1)
    found: Ints = owned - room.free
    return found


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    return PER_TAKEN * taken_by(room)
