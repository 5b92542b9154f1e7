"""What a placer may look at beside what is free: what is usually asked for, what was measured, who is owed what."""

from functools import cached_property

from msgspec.structs import replace

from gangline_core.capacity import Room
from gangline_core.cluster import LOAD_STALE_MS, Load
from gangline_core.mix import STANDARD, Mix, mix_of
from gangline_core.state import State

KNOWN_MIN = 20
"""With fewer tasks than this nobody can say what is typical."""
WEIGHTS_SUM = 256
"""Frequencies are told apart to this part of the whole, so that a few jobs more or less change nothing."""


class Beside:
    """One pool at one moment. Everything follows from the folded state, so equal states give equal answers."""

    def __init__(self, state: State | None = None, pool: str = "", now: int = 0, *, mix: Mix | None = None) -> None:
        """Of this pool of the state; or with a mix that is given, as in experiments."""
        self.state, self.pool, self.now = state, pool, now
        self._given = mix

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
