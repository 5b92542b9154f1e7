"""Seats of gangs that start again: all of them at once, anywhere in what is free and what they have between them.

A gang of kind `restart` loses nothing by standing elsewhere, since all of it starts again anyway. Members added beside
those there are would leave it on whatever nodes it began on, far apart and in the way of others. So those that start
again in one round are seated together, the largest first, as if none of them were there yet; where one takes what
another leaves, it waits for that. Who finds no seats so stays where it is, and the others are seated without it.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.facts import TaskPlacement
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, Task
from gangline_core.limits.budgets import BUDGET, worst_cost
from gangline_core.limits.spending import run_cost
from gangline_core.placement.gang import Gang, Seats, gang_of
from gangline_core.placement.ranks import level_of
from gangline_core.room.capacity import Room
from gangline_core.room.holds import placed_amounts
from gangline_core.spec import Role
from gangline_core.state import task_amounts
from gangline_core.table import Table


class Wish(Struct, frozen=True):
    """A gang that shall start again."""

    job: Job
    role: Role
    sizes: tuple[int, ...]
    """Sizes of the role that would do, best first."""
    own: tuple[Task, ...]
    """What it has now."""
    why: str
    moves: bool = False
    """It keeps its size, and starts again only if that brings it closer together or lets another in."""

    @property
    def rank(self) -> tuple[int, JobId]:
        """Large gangs are seated first: small ones find room between them."""
        return (-self.sizes[0] * self.role.resources.gpu_milli, self.job.id)


def wish(table: Table, job: Job, role: Role, sizes: Iterable[int], *, why: str, moves: bool = False) -> Wish:
    """The wish of a job."""
    own = tuple(table.state.tasks_of(job))
    return Wish(job=job, role=role, sizes=tuple(sizes), own=own, why=why, moves=moves)


def pack(table: Table, room: Room, wishes: Iterable[Wish]) -> list[tuple[Wish, Seats]]:
    """Seats for as many of these gangs as fit together, largest first; `room` is what is free beside them."""
    left = sorted(wishes, key=lambda one: one.rank)
    while left:
        seated, stay = _seat_all(table, room, left)
        stay = stay or _in_vain(table, seated)
        if not stay:
            return seated
        left = [one for one in left if one.job.id not in stay]
    return []


def _seat_all(table: Table, room: Room, wishes: Sequence[Wish]) -> tuple[list[tuple[Wish, Seats]], set[JobId]]:
    """Seats of all of them, or who found none."""
    free = room.copy()
    for one in wishes:
        for task in one.own:
            free.give(task)
    seated: list[tuple[Wish, Seats]] = []
    stay: set[JobId] = set()
    for one in wishes:
        found = next(filter(None, (_seat(table, free, one, size) for size in one.sizes)), None)
        if found is None:
            stay.add(one.job.id)
            break
        seated.append((one, found))
        table.ledger.take(one.job, beyond(table, found.tasks, one.own))
        for place in found.tasks:
            free.take(place)
    for one, seats in seated:
        table.ledger.give(one.job, beyond(table, seats.tasks, one.own))
    return seated, stay


def _seat(table: Table, free: Room, one: Wish, size: int) -> Seats | None:
    seats = table.seating.placer(free, _gang(table, one, size))
    if seats is None or table.ledger.fault(one.job, beyond(table, seats.tasks, one.own)) is not None:
        return None
    return seats


def _gang(table: Table, one: Wish, size: int) -> Gang:
    """The gang with this role at a size, on the model it has."""
    closed = table.seating.closures.nodes(one.job.spec, started_ms=one.job.started_ms)
    gang = gang_of(one.job.spec, {**one.job.sizes, one.role.name: size}, table.pool.pool)
    models = tuple(sorted({task.gpu_model.lower() for task in one.own if task.gpu_model}))
    needs = tuple(replace(need, models=models) if need.wants_gpu and models else need for need in gang.needs)
    return replace(gang, needs=needs, excluded=(*gang.excluded, *closed))


def _in_vain(table: Table, seated: Sequence[tuple[Wish, Seats]]) -> set[JobId]:
    """Gangs that would move without standing closer together and without leaving room that another takes."""
    stay = set()
    for one, seats in seated:
        if one.moves and not _is_closer(table, one, seats):
            places = [place for other, its in seated if other is not one for place in its.tasks]
            if not _leaves_room(one, places):
                stay.add(one.job.id)
    return stay


def _is_closer(table: Table, one: Wish, seats: Seats) -> bool:
    gang = gang_of(one.job.spec, one.job.sizes, table.pool.pool)
    ladder = gang.ladder()
    present = level_of(table.frozen.layout, gang.levels, one.own)
    if ladder.index(seats.level) != ladder.index(present):
        return ladder.index(seats.level) < ladder.index(present)
    return len({place.node for place in seats.tasks}) < len({task.node for task in one.own})


def _leaves_room(one: Wish, places: Iterable[TaskPlacement]) -> bool:
    """True when these places take a GPU that the gang has, or of one without any, a place on its nodes."""
    taken = {(place.node, share.index) for place in places for share in place.gpus}
    nodes = {place.node for place in places if not place.gpus}
    return any(task.node in nodes or any((task.node, share.index) in taken for share in task.gpus) for task in one.own)


def in_the_way(seats: Seats, others: Iterable[Wish]) -> tuple[TaskId, ...]:
    """Members of other gangs on the nodes of these seats: whatever they hold there may be needed."""
    nodes = {place.node for place in seats.tasks}
    return tuple(sorted(task.id for other in others for task in other.own if task.node in nodes))


def beyond(table: Table, places: Sequence[TaskPlacement], own: Sequence[Task]) -> dict[str, int]:
    """What these places count against quotas beyond what the gang has; nothing where that is less."""
    amounts = placed_amounts(table.state, places)
    for task in own:
        for dimension, amount in task_amounts(task).items():
            amounts[dimension] = amounts.get(dimension, 0) - amount
    more = {dimension: amount for dimension, amount in amounts.items() if amount > 0}
    return {**more, **of_budget(table, table.state.kept.jobs[own[0].job])} if own else more


def of_budget(table: Table, job: Job) -> dict[str, int]:
    """What a gang that starts again can cost beyond what is counted of it: a whole run for the rest of one."""
    state = table.state
    if not state.door.safe_groups:
        return {}
    more = worst_cost(job.spec, state.kept.prices) - run_cost(state, job, table.now)
    return {BUDGET: more} if more > 0 else {}


def nodes_beyond(table: Table, seats: Seats) -> int:
    """On how many nodes more than it would have to be a gang stands; 0 for one without GPUs."""
    gpus = sum(len(place.gpus) for place in seats.tasks)
    widest = max((len(node.gpus) for node in table.frozen.nodes), default=0)
    return len({place.node for place in seats.tasks}) - -(-gpus // widest) if gpus and widest else 0
