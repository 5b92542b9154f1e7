"""Which nodes take how many tasks of one role, by how well each suits a task and how many it can hold."""

import numpy as np

from gangline_core.placement.fit import KEY_MAX, SLOTS_MAX
from gangline_core.room.capacity import Ints


def portions(keys: Ints, free: Ints, count: int, *, sizes: Ints, spreads: bool) -> list[tuple[int, int]]:
    """Nodes and how many tasks each gets, as many of `count` as have room.

    `keys` say how well each node suits a task, smaller is better, and `free` how many each can hold. Of nodes that
    suit equally the one with fewer GPUs (`sizes`) goes first, and only of equal ones the first by name.
    """
    if count == 1 or not spreads:
        fitting = np.where(free >= count, keys, KEY_MAX)
        least = fitting.min()
        if least < KEY_MAX:
            equal = np.flatnonzero(fitting == least)
            return [(int(equal[sizes[equal].argmin()]), count)]
    rows = np.flatnonzero((free > 0) & (keys < KEY_MAX))
    if not len(rows):
        return []
    rows = rows[np.argsort(sizes[rows], kind="stable")]
    holds = np.minimum(free[rows], count)
    return _spread(rows, keys[rows], holds, count) if spreads else _pack(rows, keys[rows], holds, count)


def _pack(rows: Ints, keys: Ints, holds: Ints, count: int) -> list[tuple[int, int]]:
    """As few nodes as possible: those that hold most first, and the tightest that holds the rest last."""
    chosen: list[tuple[int, int]] = []
    rest = np.ones(len(rows), dtype=np.bool_)
    for k in _first((SLOTS_MAX - holds) * KEY_MAX + keys, count).tolist():
        if int(holds[k]) >= count:
            break
        chosen.append((int(rows[k]), int(holds[k])))
        rest[k] = False
        count -= int(holds[k])
        if not count:
            return chosen
    enough = (holds >= count) & rest
    if enough.any():
        best = int(np.argmin(np.where(enough, keys, KEY_MAX)))
        chosen.append((int(rows[best]), count))
    return chosen


def _first(order: Ints, count: int) -> Ints:
    """Positions of the `count` smallest entries, in order; of equal ones the first come first."""
    if len(order) > 4 * count:
        # Partitioning does not say which of equal entries it keeps, so all that equal the last one are kept.
        limit = np.partition(order, count)[count]
        near = np.flatnonzero(order <= limit)
        return near[np.argsort(order[near], kind="stable")][: count + 1]
    return np.argsort(order, kind="stable")


def _spread(rows: Ints, keys: Ints, holds: Ints, count: int) -> list[tuple[int, int]]:
    """One task per node in order of the keys, round after round, until all have a seat."""
    order = _first(keys, count) if len(rows) >= count else np.argsort(keys, kind="stable")
    given = dict.fromkeys(order.tolist(), 0)
    while count:
        before = count
        for k in given:
            if count and given[k] < int(holds[k]):
                given[k] += 1
                count -= 1
        if count == before:
            break
    return [(int(rows[k]), number) for k, number in given.items() if number]
