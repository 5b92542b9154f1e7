"""Sets of victims in the order of what they cost, cheapest first, until one helps.

How a gang of several roles, of shares or inside a level fits, only the placer can say. So sets are tried, and the
first that helps is the cheapest there is: none of its victims can be spared, since every smaller set was tried before.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

from gangline_core.cluster import Pool
from gangline_core.making_room.cheapest import Cost, plan_cost
from gangline_core.making_room.losses import EVICT, Loss
from gangline_core.room.capacity import Flags, Room

SETS_LISTED_MAX = 1_024
"""Sets that are looked at, also those that cannot help at all: all sets of up to ten victims."""


def that_matter(room: Room, mask: Flags, losses: Sequence[Loss], counts: Callable[[Loss], bool]) -> list[Loss]:
    """Evictions that free anything where the job may go, or that `counts` against a limit above it."""
    return [loss for loss in losses if loss.kind == EVICT and (milli_on(room, mask, loss) >= 0 or counts(loss))]


def by_cost(pool: Pool, room: Room, mask: Flags, evictions: Sequence[Loss], *, missing: int) -> Iterator[list[Loss]]:
    """Sets of these evictions that free so many GPU thousandths, cheapest first (see `cheapest.plan_cost`).

    Of many evictions only the first sets are looked at.
    """
    costs = [plan_cost(pool, [loss])[0] for loss in evictions]
    freed = [max(0, milli_on(room, mask, loss)) for loss in evictions]
    listed = 0
    for band in sorted({cost[0] for cost in costs}):
        # Only the least important go: sets with nobody of this band were tried before.
        order = sorted((k for k, cost in enumerate(costs) if cost[0] <= band), key=lambda k: (costs[k], k))
        for some in _ascending([costs[k] for k in order]):
            listed += 1
            if listed > SETS_LISTED_MAX:
                return
            chosen = [order[k] for k in some]
            if any(costs[k][0] == band for k in chosen) and sum(freed[k] for k in chosen) >= missing:
                yield [evictions[k] for k in chosen]


def _ascending(costs: Sequence[Cost]) -> Iterator[tuple[int, ...]]:
    """Every set of these, given by their numbers, in the order of work lost, then of how many they are."""
    order = sorted(range(len(costs)), key=lambda k: (costs[k][1:], k))
    work = [costs[k][1] for k in order]
    heap: list[tuple[int, int, tuple[int, ...]]] = [(work[0], 1, (0,))] if work else []
    while heap:
        cost, size, some = heappop(heap)
        yield tuple(order[k] for k in some)
        following = some[-1] + 1
        if following < len(work):
            heappush(heap, (cost + work[following], size + 1, (*some, following)))
            heappush(heap, (cost - work[some[-1]] + work[following], size, (*some[:-1], following)))


def milli_on(room: Room, mask: Flags, loss: Loss) -> int:
    """GPU thousandths that an eviction frees on these nodes; -1 when it has no task there."""
    found = -1
    for task in (*loss.tasks, *loss.also):
        row = room.layout.row.get(task.node)
        if row is not None and mask[row]:
            found = max(0, found) + sum(share.milli for share in task.gpus)
    return found
