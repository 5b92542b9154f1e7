"""Where paused jobs stand, pool by pool: one look at the room tells for all of them whose place is free.

Thousands may stand still while a few work, and mostly their places are taken. So what they would take up again stands
in numbers, which one comparison goes through.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from msgspec import Struct

from gangline_core.ids import JobId, NodeId
from gangline_core.room.capacity import Layout, Room

Places = tuple[tuple[NodeId, int], ...]
"""Per task of a job that stands still its node, and the CPU thousandths that it takes when it works."""
Turn = tuple[bool, int, JobId]
"""What sorts those that want to go on: urgent ones first, then oldest pause."""
_NOWHERE = -1
"""Row of a place on a node that the room has not: whoever stands there is looked at."""
_ENOUGH_MILLI = 1 << 60
_FEW = 64
"""So many numbers of jobs that left are kept at least before they are cleared away."""


class Still(Struct, frozen=True, gc=False):
    """A job that wants to go on and stands still with all of its tasks."""

    turn: Turn
    places: Places


class Standstill:
    """Read pool by pool by whoever lets jobs go on; the fold tells which job is another than before."""

    def __init__(self) -> None:
        """Nobody stands still."""
        self._pools: dict[str, StillHere] = {}
        self._pool_of: dict[JobId, str] = {}

    def touch(self, job: JobId) -> None:
        """Something about the job, or about one of its tasks, may be another than before."""
        if (pool := self._pool_of.pop(job, None)) is not None:
            self._pools[pool].leave(job)

    def of_pool(self, pool: str, paused: Collection[JobId], read: Callable[[JobId], Still | None]) -> "StillHere":
        """The paused jobs of a pool, which are these; `read` tells of one that wants to go on, None of another."""
        found = self._pools.setdefault(pool, StillHere())
        for job in [job for job in paused if job not in found.known]:
            self._pool_of[job] = pool
            found.enter(job, read(job))
        return found


class StillHere:
    """Those of one pool; each has a number until it leaves."""

    def __init__(self) -> None:
        self.known: dict[JobId, Still | None] = {}
        """Everybody who is paused; None for who does not want to go on, or does not stand still yet."""
        self._layout: Layout | None = None
        self._jobs: list[JobId] = []
        """By number."""
        self._number: dict[JobId, int] = {}
        self._is_here = np.zeros(0, dtype=np.bool_)
        """By number, whether it has not left."""
        self._lines = np.zeros((3, 0), dtype=np.int64)
        """Per place whose number it has, its row, and the CPU thousandths that are taken up there."""
        self._length = 0
        """So many of these lines are in use."""
        self._urgent: dict[JobId, None] = {}
        """Those for whom others may be sent away."""

    def enter(self, job: JobId, still: Still | None) -> None:
        """A job is paused, or known anew."""
        self.known[job] = still
        if still is None:
            return
        if not still.turn[0]:
            self._urgent[job] = None
        if self._layout is not None:
            self._write([(job, still)])

    def leave(self, job: JobId) -> None:
        """It is not, or it has to be read again."""
        self.known.pop(job, None)
        self._urgent.pop(job, None)
        if (number := self._number.pop(job, None)) is not None:
            self._is_here[number] = False

    def everybody(self) -> list[tuple[JobId, Places]]:
        """All who want to go on, in their turn."""
        return _in_turn(still for still in self.known.values() if still is not None)

    def with_room(self, room: Room, stirring: Iterable[NodeId]) -> list[tuple[JobId, Places]]:
        """In their turn those whose CPUs are all free, those with a place on one of these nodes, and urgent ones.

        Nobody else finds his place free in this room, nor in what is left of it later.
        """
        self._follow(room.layout)
        jobs, rows, wanted = self._lines[:, : self._length]
        is_left_out = np.zeros(len(self._jobs), dtype=np.bool_)
        free = np.append(room.cpu.clip(0), _ENOUGH_MILLI)
        is_left_out[jobs[wanted > free[rows]]] = True
        is_stirring = np.zeros(len(free), dtype=np.bool_)
        is_stirring[[row for node in stirring if (row := room.layout.row.get(node)) is not None]] = True
        is_left_out[jobs[is_stirring[rows]]] = False
        names = self._jobs
        chosen = {names[number] for number in np.flatnonzero(self._is_here & ~is_left_out).tolist()}
        chosen.update(self._urgent)
        return _in_turn(still for job in chosen if (still := self.known[job]) is not None)

    # --- inside -----------------------------------------------------------------------------------------

    def _follow(self, layout: Layout) -> None:
        """Write everybody anew where rows are others, or where most of what is written has left."""
        if layout is self._layout and len(self._jobs) <= 2 * len(self._number) + _FEW:
            return
        self._layout, self._length = layout, 0
        self._jobs, self._number, self._is_here = [], {}, np.zeros(0, dtype=np.bool_)
        self._write([(job, still) for job, still in self.known.items() if still is not None])

    def _write(self, stills: Sequence[tuple[JobId, Still]]) -> None:
        """Give these jobs numbers."""
        row = self._layout.row if self._layout is not None else {}
        lines: list[tuple[int, int, int]] = []
        for job, still in stills:
            number = self._number[job] = len(self._jobs)
            self._jobs.append(job)
            lines += [(number, row.get(node, _NOWHERE), cpu_milli) for node, cpu_milli in still.places]
        length = self._length + len(lines)
        if length > self._lines.shape[1]:
            self._lines = np.concatenate((self._lines, np.zeros((3, length), dtype=np.int64)), axis=1)
        self._lines[:, self._length : length] = np.array(lines, dtype=np.int64).reshape(-1, 3).T
        self._length = length
        more = len(self._jobs) - len(self._is_here)
        self._is_here = np.concatenate((self._is_here, np.ones(more, dtype=np.bool_)))


def _in_turn(stills: Iterable[Still]) -> list[tuple[JobId, Places]]:
    return [(still.turn[2], still.places) for still in sorted(stills, key=lambda still: still.turn)]
