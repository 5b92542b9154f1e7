"""The cheapest set of victims for a whole gang, exactly, where the numbers are small enough.

Who gives up what is weighed node by node: for each node and each number of tasks the cheapest victims there that make
it hold so many, then the cheapest way to spread the gang over the nodes. Victims that stand on several nodes tie nodes
together, so every set of them is tried. What is counted is GPUs, CPU and memory; whether the gang then really has seats
is for the placer to say, which tries what is found here.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np
from msgspec import Struct

from gangline_core.cluster import LEVELS_INSIDE_NODE, Pool
from gangline_core.job import Task
from gangline_core.making_room.losses import BY_GUARANTEE, EVICT, Loss, effective_priority, work_lost
from gangline_core.placement.gang import Gang, Need
from gangline_core.placement.models import acceptable
from gangline_core.room.capacity import Flags, Ints, Room
from gangline_core.spec import GPU_MILLI, ServiceClass

WIDE_MAX = 6
"""Victims on several nodes of which every set is tried; with more nothing is worked out."""
ON_NODE_MAX = 6
"""Victims on one node of which every set is tried; of more only the cheapest are looked at."""
STEPS_MAX = 100_000
"""Sets of victims on single nodes that are weighed; where there are more, nothing is worked out."""
TASKS_MAX = 64
COUNT = 1 << 12
"""Of equal work fewer victims are better: what one victim more weighs."""

Choice = tuple[int, tuple[int, ...]]
"""What victims cost, and their numbers."""
FREE: Choice = (0, ())


class Victim(Struct, frozen=True):
    """One eviction: what it frees on which rows (GPUs, CPU, memory), and what it costs."""

    rows: dict[int, Ints]
    band: tuple[bool, int]
    cost: int


class Node(Struct, frozen=True):
    """A row on which somebody could go: every set of those who stand on it alone, with what the set frees."""

    row: int
    sets: list[tuple[Choice, Ints]]


def cheapest_set(pool: Pool, room: Room, gang: Gang, losses: Sequence[Loss]) -> list[Loss] | None:
    """The evictions of least work after which the nodes could hold the gang; None where that is not worked out.

    Only the least important ones that suffice may go, and of these the cheapest do, as for single places.
    """
    evictions = [loss for loss in losses if loss.kind == EVICT]
    if not _is_simple(gang) or len(evictions) < 2 or any(loss.rule == BY_GUARANTEE for loss in evictions):
        return None
    need = gang.needs[0]
    kinds = [kind for own in acceptable(room.layout, need).values() for kind in own]
    victims = [_victim(pool, room, loss, kinds) for loss in evictions]
    free = _free(room, kinds, [loss for loss in losses if loss.kind != EVICT])
    domains = list(_domains(room, gang))
    for band in sorted({victim.band for victim in victims}):
        allowed = [k for k, victim in enumerate(victims) if victim.band <= band and victim.rows]
        if not _is_small(victims, allowed):
            return None
        found = [_in_domain(free, rows, gang, (victims, allowed)) for rows in domains]
        best = min((choice for choice in found if choice is not None), default=None)
        if best is not None:
            return [evictions[k] for k in best[1]] or None
    return None


def first_of(chosen: Sequence[Loss], losses: Sequence[Loss]) -> list[Loss]:
    """All of these losses with the chosen evictions before the others."""
    jobs = {loss.job.id for loss in chosen}
    return sorted(losses, key=lambda loss: (loss.kind == EVICT) + (loss.kind == EVICT and loss.job.id not in jobs))


def _is_simple(gang: Gang) -> bool:
    """True for equal tasks of whole GPUs whose places are told apart by nodes alone."""
    if len(gang.needs) != 1 or not gang.needs[0].gpus or gang.tasks > TASKS_MAX:
        return False
    return not (gang.is_shaped or gang.same_model or gang.pinned or gang.required in LEVELS_INSIDE_NODE)


def _is_small(victims: Sequence[Victim], allowed: Sequence[int]) -> bool:
    wide = sum(len(victims[k].rows) > 1 for k in allowed)
    rows = {row for k in allowed for row in victims[k].rows}
    return wide <= WIDE_MAX and (len(rows) << wide << ON_NODE_MAX) <= STEPS_MAX


def _victim(pool: Pool, room: Room, loss: Loss, kinds: Sequence[int]) -> Victim:
    rows: dict[int, Ints] = {}
    for task in (*loss.tasks, *loss.also):
        row = room.layout.row.get(task.node)
        if row is not None:
            rows[row] = rows.get(row, np.zeros(3, dtype=np.int64)) + _of_task(room, task, kinds)
    job = loss.job
    band = (job.service_class != ServiceClass.OPPORTUNISTIC, effective_priority(pool, job.spec))
    return Victim(rows=rows, band=band, cost=work_lost(loss) * COUNT + 1)


def _of_task(room: Room, task: Task, kinds: Sequence[int]) -> Ints:
    """Whole GPUs of these kinds, CPU and memory that a task gives back."""
    row = room.layout.row[task.node]
    gpus = sum(
        share.milli == GPU_MILLI and share.index < room.layout.width and room.layout.kind[row, share.index] in kinds
        for share in task.gpus
    )
    return np.array([gpus, task.cpu_milli, task.memory_mib], dtype=np.int64)


def _free(room: Room, kinds: Sequence[int], others: Sequence[Loss]) -> Ints:
    """What each row has free once everything has gone that costs nobody a run."""
    free = np.stack([room.whole[list(kinds)].sum(axis=0), room.cpu, room.memory], axis=1)
    for loss in others:
        for task in loss.tasks:
            row = room.layout.row.get(task.node)
            if row is not None:
                free[row] += _of_task(room, task, kinds)
    return free


def _domains(room: Room, gang: Gang) -> Iterator[Flags]:
    """The rows among which the gang must stay: each domain of the level it requires, or all."""
    mask = gang.mask(room.layout)
    label = dict(gang.levels).get(gang.required)
    if not gang.required:
        yield mask
    elif label is not None:
        codes, names = room.layout.domains(label)
        for number in range(len(names)):
            yield mask & (codes == number)


def _in_domain(free: Ints, rows: Flags, gang: Gang, known: tuple[Sequence[Victim], Sequence[int]]) -> Choice | None:
    """The cheapest of the allowed victims after which these rows hold the gang."""
    victims, allowed = known
    need = gang.needs[0]
    touched = sorted({row for k in allowed for row in victims[k].rows if rows[row]})
    quiet = rows.copy()
    quiet[touched] = False
    missing = gang.tasks - int(_held(free[quiet], need).sum())
    wide = [k for k in allowed if len(victims[k].rows) > 1]
    nodes = [Node(row=row, sets=_sets(row, victims, allowed)) for row in touched]
    best: Choice | None = None
    for some in chain.from_iterable(combinations(wide, size) for size in range(len(wide) + 1)):
        first = (sum(victims[k].cost for k in some), some)
        if best is not None and first[0] > best[0]:
            continue
        now = free.copy()
        for k in some:
            for row, freed in victims[k].rows.items():
                now[row] += freed
        choice = _spread(now, need, nodes, missing=missing)
        if choice is not None:
            whole = (first[0] + choice[0], tuple(sorted((*some, *choice[1]))))
            best = whole if best is None else min(best, whole)
    return best


def _sets(row: int, victims: Sequence[Victim], allowed: Sequence[int]) -> list[tuple[Choice, Ints]]:
    """Every set of the cheapest who stand on this row alone."""
    own = sorted((k for k in allowed if victims[k].rows.keys() == {row}), key=lambda k: (victims[k].cost, k))
    nothing = np.zeros(3, dtype=np.int64)
    return [
        (
            (sum(victims[k].cost for k in some), tuple(sorted(some))),
            sum((victims[k].rows[row] for k in some), start=nothing),
        )
        for some in chain.from_iterable(combinations(own[:ON_NODE_MAX], size) for size in range(ON_NODE_MAX + 1))
    ]


def _spread(free: Ints, need: Need, nodes: Sequence[Node], *, missing: int) -> Choice | None:
    """The cheapest way to have these nodes hold what is missing."""
    if missing <= 0:
        return FREE
    reached: dict[int, Choice] = {0: FREE}
    for node in nodes:
        options: dict[int, Choice] = {}
        held = _held(free[node.row] + np.stack([freed for _, freed in node.sets]), need)
        for (choice, _), tasks in zip(node.sets, held.tolist(), strict=True):
            if tasks not in options or choice < options[tasks]:
                options[tasks] = choice
        further: dict[int, Choice] = {}
        for before, so_far in reached.items():
            for tasks, choice in options.items():
                after = min(missing, before + tasks)
                both = (so_far[0] + choice[0], (*so_far[1], *choice[1]))
                if after not in further or both < further[after]:
                    further[after] = both
        reached = further
    return reached.get(missing)


def _held(free: Ints, need: Need) -> Ints:
    """How many tasks each of these amounts holds."""
    held = free[:, 0] // need.gpus
    if need.cpu_milli:
        held = np.minimum(held, free[:, 1] // need.cpu_milli)
    if need.memory_mib:
        held = np.minimum(held, free[:, 2] // need.memory_mib)
    return held.clip(0)
