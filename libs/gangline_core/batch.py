"""All candidates of a round in one flow of least cost: where the pool places by `min_cost_flow`.

One after the other, a job takes the cheapest place, though another one that comes later may have no other. So the tasks
of the first candidates flow to the slots of nodes together: as many as can, at the least cost in all, and where not all
can, those that come first in the round. What the flow says is a proposal: each job is then looked at in its turn, by
all rules, and who finds its place taken or got none is placed by itself.

Source: Firmament (Gog et al., OSDI 2016): all waiting tasks are one min-cost flow, waiting costs more than any place
and more for those who wait longer; a gang flows whole or is taken out of the flow, as in its successors.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.facts import Candidate
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.limits.quota import JOBS
from gangline_core.placement.each import is_free_of_wishes
from gangline_core.placement.flow import NEVER, PER_TAKEN, assign, held_by, is_unit, seat_flow, taken_by
from gangline_core.placement.gang import Gang
from gangline_core.placement.models import NO_GPU, Choice, acceptable
from gangline_core.placement.ranks import in_rank_order
from gangline_core.room.capacity import Ints, Room
from gangline_core.room.holds import placed_amounts
from gangline_core.seating import Found, wanted_sizes
from gangline_core.table import Table

FLOW = "min_cost_flow"
TASKS_MAX = 256
"""Tasks of one flow; candidates beyond are placed one after the other."""
WAITING = 1 << 30
"""What it costs a task to wait, at the least."""
EARLIER = 1 << 24
"""How much more it costs the next earlier job: more than all places together, so that nobody waits for a later one."""
SOLVED_MAX = 8
"""How often the flow is solved anew without a gang that did not fit whole."""


class Flowing(Struct, frozen=True):
    """One job in the flow."""

    job: JobId
    gang: Gang
    choice: Choice

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """Need and index of each task."""
        return [(k, need.first_index + i) for k, need in enumerate(self.gang.needs) for i in range(need.count)]


class Batch:
    """Where the flow sends each job of a round."""

    def __init__(self, table: Table, candidates: Iterable[Candidate]) -> None:
        """Solved for what is free at the beginning of the round."""
        self._table = table
        self._rows: dict[JobId, tuple[Flowing, list[int]]] = {}
        if table.policy.placement != FLOW:
            return
        flowing = _flowing(table, candidates)
        for _ in range(SOLVED_MAX):
            if len(flowing) < 2:
                return
            rows = _solve(table.room, flowing)
            torn = [
                one for one, own in zip(flowing, rows, strict=True) if None in own and any(r is not None for r in own)
            ]
            if not torn:
                self._rows = {
                    one.job: (one, [row for row in own if row is not None])
                    for one, own in zip(flowing, rows, strict=True)
                    if None not in own
                }
                return
            # The last of those that would be torn apart makes way for the others.
            flowing = [one for one in flowing if one is not torn[-1]]

    def found(self, job: Job, room: Room) -> Found | None:
        """The job's seats as the flow has them, if they still hold and its limits allow them."""
        known = self._rows.get(job.id)
        if known is None:
            return None
        one, rows = known
        tasks = seat_flow(room, one.gang, one.choice, [(*task, row) for task, row in zip(one.tasks, rows, strict=True)])
        if tasks is None:
            return None
        seats = in_rank_order(room.layout, one.gang, tasks)
        amounts = {**placed_amounts(self._table.state, seats.tasks), JOBS: 1}
        if self._table.ledger.fault(job, amounts) is not None:
            return None
        return Found(sizes=wanted_sizes(job.spec), seats=seats, amounts=amounts)


def _flowing(table: Table, candidates: Iterable[Candidate]) -> list[Flowing]:
    """The first candidates that are made of single slots and wish for nothing else, in their order."""
    found: list[Flowing] = []
    room_for = TASKS_MAX
    for candidate in candidates:
        job = table.state.job(candidate.job)
        if job is None or job.state != JobState.WAITING:
            continue
        gang = table.seating.ask(job, wanted_sizes(job.spec)).gang
        if gang.same_model or not is_free_of_wishes(gang) or not all(map(is_unit, gang.needs)) or not gang.tasks:
            continue
        if gang.tasks > room_for:
            break
        room_for -= gang.tasks
        layout = table.room.layout
        choice = tuple(tuple(acceptable(layout, need).values()) if need.wants_gpu else NO_GPU for need in gang.needs)
        found.append(Flowing(job=job.id, gang=gang, choice=choice))
    return found


def _solve(room: Room, flowing: list[Flowing]) -> list[list[int | None]]:
    """Per job the row of each of its tasks; None where it had better wait."""
    total = sum(one.gang.tasks for one in flowing)
    holds = [_holds(room, one, total) for one in flowing]
    spare = np.maximum.reduce([held for own in holds for held in own])
    nodes = np.flatnonzero(spare)
    depth = np.minimum(spare[nodes], total)
    node = np.repeat(nodes, depth)
    order = np.arange(len(node)) - np.repeat(np.cumsum(depth) - depth, depth)
    price = PER_TAKEN * (taken_by(room)[node] + order)
    useful = _useful(node, order, price, holds, total)
    node, order, price = node[useful], order[useful], price[useful]
    costs, waiting = [], []
    for place, (one, own) in enumerate(zip(flowing, holds, strict=True)):
        for k, _ in one.tasks:
            costs.append(np.where(order < own[k][node], price, NEVER))
            waiting.append(WAITING + (total - place) * EARLIER)
    found = iter(assign(np.stack(costs), waiting))
    return [[None if (slot := next(found)) is None else int(node[slot]) for _ in one.tasks] for one in flowing]


def _useful(node: Ints, order: Ints, price: Ints, holds: list[list[Ints]], total: int) -> Ints:
    """The cheapest slots of every kind of task, as many as there are tasks: no flow of least cost needs others."""
    kinds = {held.tobytes(): held for own in holds for held in own}
    by_price = np.lexsort((node, price))
    chosen = np.zeros(len(node), dtype=np.bool_)
    for held in kinds.values():
        chosen[by_price[order[by_price] < held[node[by_price]]][:total]] = True
    return by_price[chosen[by_price]]


def _holds(room: Room, one: Flowing, total: int) -> list[Ints]:
    """Per need how many of its tasks each node holds, up to the tasks of all."""
    mask = one.gang.mask(room.layout)
    return [held_by(room, replace(need, count=total), one.choice[k], mask) for k, need in enumerate(one.gang.needs)]
