"""What a placer may look at beside what is free: what is usually asked for, what was measured, who is owed what."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import TypeVar, cast

from msgspec.structs import replace

from gangline_core.cluster import LOAD_STALE_MS, Load, Pool
from gangline_core.facts import TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Task, TaskState
from gangline_core.room.capacity import Layout, Room
from gangline_core.room.mix import STANDARD, Mix, mix_of
from gangline_core.state import State

Answer = TypeVar("Answer")
KNOWN_MIN = 20
"""With fewer tasks than this nobody can say what is typical."""
WEIGHTS_SUM = 256
"""Frequencies are told apart to this part of the whole, so that a few jobs more or less change nothing."""


class Beside:
    """One pool at one moment. Everything follows from the folded state, so equal states give equal answers."""

    def __init__(
        self,
        state: State | None = None,
        pool: str = "",
        now: int = 0,
        *,
        mix: Mix | None = None,
        placed: Callable[[], Iterable[TaskPlacement]] = tuple,
        lowered: Collection[JobId] = (),
    ) -> None:
        """Of this pool of the state, with what the same decision `placed` and `lowered`; or with a given mix."""
        self.state, self.pool, self.now = state, pool, now
        self.lowered = lowered
        self._given = mix
        self._placed = placed
        self._known: dict[str, tuple[Layout, int, object]] = {}

    @property
    def pool_settings(self) -> Pool | None:
        """The pool as its administrator set it."""
        known = self.state.kept.pools.get(self.pool) if self.state is not None else None
        return known.pool if known is not None else None

    @property
    def postpone_percent(self) -> int:
        """The utility below which the pool has tasks wait for a better place."""
        known = self.state.kept.pools.get(self.pool) if self.state is not None else None
        return known.policy.postpone_percent if known is not None else 0

    @property
    def promises(self) -> dict[str, dict[str, int]]:
        """Parts of the topology that groups are owed."""
        pool = self.pool_settings
        return pool.cells if pool is not None else {}

    def in_cells(self) -> Iterator[Task | TaskPlacement]:
        """Tasks that stand in cells of their groups, those of this decision included; what a lost node had is gone."""
        if self.state is not None:
            tasks = (task for task in self.state.kept.tasks.values() if task.cells)
            yield from (task for task in tasks if task.state != TaskState.LOST and task.job not in self.lowered)
        yield from (place for place in self._placed() if place.cells)

    @cached_property
    def mix(self) -> Mix:
        """What tasks of the pool usually ask for."""
        if self._given is not None:
            return self._given
        if self.state is None:
            return STANDARD
        asked = self.state.asked.of(self.pool)
        total = sum(asked.values())
        if total < KNOWN_MIN:
            return STANDARD
        return mix_of(
            replace(task, weight=weight)
            for task, number in asked.items()
            if (weight := (2 * number * WEIGHTS_SUM + total) // (2 * total))
        )

    def once(self, layout: Layout, name: str, work_out: Callable[[], Answer]) -> Answer:
        """What a placer of this name needs of a layout and the mix, worked out again only when a node has changed."""
        known = self._known.get(name)
        if known is None or known[0] is not layout or known[1] != layout.version:
            known = self._known[name] = (layout, layout.version, work_out())
        return cast("Answer", known[2])

    def loads(self, room: Room) -> dict[int, Load]:
        """What was measured lately on the room's nodes, by row; nodes without a fresh measurement are left out."""
        if self.state is None:
            return {}
        row = room.layout.row
        return {
            row[node]: load
            for node, load in self.state.kept.loads.items()
            if node in row and self.now - load.at <= LOAD_STALE_MS
        }


NOTHING = Beside()
"""For those who know of no state: the standard mix, nothing measured, no cells."""
