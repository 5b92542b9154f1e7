"""From which group members or jobs go, step by step: always from the one that is then most over its fair part."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeVar

from gangline_core.limits.fair_division import fair_gpu_parts
from gangline_core.table import Table

Entry = TypeVar("Entry")


class MostOver:
    """The groups of one round, as its table knows them when it is asked."""

    def __init__(self, table: Table) -> None:
        """Nothing is worked out yet."""
        self._table = table
        self._fair_parts: dict[str, int] | None = None
        """What each group deserves of all GPUs, in thousandths; worked out when somebody asks."""

    def first(
        self,
        entries: list[Entry],
        *,
        of: Callable[[Entry], tuple[str, dict[str, int]]],
        rank: Callable[[Entry], int] = lambda _: 0,
    ) -> list[Entry]:
        """These from the group that is most over its fair part of GPUs, step by step; `of` tells group and amounts.

        Those of a lower `rank` go before; each group's own are in its order already.
        """
        queues: dict[str, list[Entry]] = {}
        for entry in entries:
            queues.setdefault(of(entry)[0], []).append(entry)
        if len(queues) < 2:
            return entries
        if self._fair_parts is None:
            self._fair_parts = fair_gpu_parts(self._table.state)
        ledger = self._table.after if self._table.has_guarantees else self._table.ledger
        parts, ordered = self._fair_parts, list[Entry]()
        heap = [
            (rank(queue[0]), parts.get(group, 0) - ledger.used(group, "gpu_milli"), group, 0)
            for group, queue in queues.items()
        ]
        heapify(heap)
        while heap:
            _, over, group, k = heappop(heap)
            queue = queues[group]
            ordered.append(queue[k])
            if k + 1 < len(queue):
                less = over + of(queue[k])[1].get("gpu_milli", 0)
                heappush(heap, (rank(queue[k + 1]), less, group, k + 1))
        return ordered
