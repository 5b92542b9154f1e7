"""How a gang's tasks are cut into slices that stay together, or spread so that not too many stand together.

A slice is so many tasks on GPUs of one model inside one domain of a level: an island, a node, a rack. A spread allows
at most so many tasks in one domain. What is promised here has room; what is missed here `exact` finds.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gangline_core.cluster import LEVELS_INSIDE_NODE, model_of
from gangline_core.facts import TaskPlacement
from gangline_core.job import Task
from gangline_core.placement.fit import share_slots, whole_gpus
from gangline_core.placement.gang import Gang, Need
from gangline_core.room.capacity import Ints, Room
from gangline_core.room.layout import Layout

CLOSE = LEVELS_INSIDE_NODE[:-1]
"""Levels below the node."""
Member = Task | TaskPlacement
"""A member of a gang, or the place of one."""


def domain_codes(layout: Layout, gang: Gang, level: str) -> Ints:
    """Per node the number of its domain at a level from the node upwards; -1 where it has none."""
    if level == LEVELS_INSIDE_NODE[-1]:
        return np.arange(len(layout.nodes), dtype=np.int64)
    label = dict(gang.levels).get(level)
    return np.full(len(layout.nodes), -1, dtype=np.int64) if label is None else layout.domains(label)[0]


def keeps_shape(layout: Layout, gang: Gang, tasks: Sequence[Member]) -> bool:
    """True when the tasks, in rank order, keep the gang's slices, each of one model, and its spread.

    Nobody can tell any more once one of their nodes serves another pool.
    """
    if any(task.node not in layout.row for task in tasks):
        return not (gang.spread_level or gang.slice_tasks)
    if gang.spread_level:
        codes = domain_codes(layout, gang, gang.spread_level)
        domains = [int(codes[layout.row[task.node]]) for task in tasks]
        if -1 in domains or any(domains.count(code) > gang.spread_most for code in set(domains)):
            return False
    if not gang.slice_tasks:
        return True
    for need in gang.needs:
        members = [task for task in tasks if task.role == need.role]
        own = [(_domain(layout, gang, task), _model(layout, task)) for task in members]
        slices = [set(own[k : k + gang.slice_tasks]) for k in range(0, len(own), gang.slice_tasks)]
        if any(len(part) != 1 or any(domain is None for domain, _ in part) for part in slices):
            return False
    return True


def _domain(layout: Layout, gang: Gang, task: Member) -> tuple[int, int] | None:
    """The domain of the slices' level in which a task stands; None when it stands in none or across two."""
    row = layout.row[task.node]
    if gang.slice_level in CLOSE:
        part = layout.part(gang.slice_level)[row]
        found = {int(part[share.index]) for share in task.gpus}
        # Whose switch nobody told is under none.
        return (row, found.pop()) if len(found) == 1 and -1 not in found else None
    code = int(domain_codes(layout, gang, gang.slice_level)[row])
    return None if code < 0 else (code, 0)


def _model(layout: Layout, task: Member) -> str:
    """The model of a task's GPUs; a slice is of one."""
    return model_of(layout.nodes[layout.row[task.node]], task.gpus[0].index).lower() if task.gpus else ""


class Shape:
    """Where tasks of one role may go, given how the gang wants to stand."""

    def __init__(
        self,
        room: Room,
        gang: Gang,
        need: Need,
        kinds: Sequence[int],
        *,
        free: Ints,
        keys: Ints,
        done: Sequence[TaskPlacement],
    ) -> None:
        """`free` is how many tasks each node could hold, `keys` how well it suits, `done` where its others are."""
        self.room, self.gang, self.need, self.kinds = room, gang, need, kinds
        self.free, self.keys = free, keys
        self._spread = domain_codes(room.layout, gang, gang.spread_level) if gang.spread_level else None
        self._left: dict[int, int] = {}
        """Tasks that each domain of the spread may still take, where it has some."""
        for task in done if self._spread is not None else ():
            code = int(self._spread[room.layout.row[task.node]]) if self._spread is not None else -1
            self._left[code] = self._left.get(code, gang.spread_most) - 1

    def spread_out(self) -> Ints:
        """How many tasks each node may get, so that no domain of the spread gets too many whatever is chosen."""
        return self._granted(self.free, unit=1)

    def in_slices(self, count: int) -> list[tuple[int, int, list[int] | None]]:
        """Nodes for so many tasks, slice by slice, with the GPUs to use where slices stay inside parts of a node."""
        unit = self.gang.slice_tasks
        if count % unit:
            return []
        if self.gang.slice_level in CLOSE:
            return list(self._inside_nodes(count // unit))
        return list(self._across_nodes(count // unit))

    def _granted(self, wanted: Ints, *, unit: int) -> Ints:
        """Units per node, cut so that the domains of the spread stay within what they may take; best nodes first."""
        if self._spread is None:
            return wanted
        granted = np.zeros_like(wanted)
        rows = np.flatnonzero((wanted > 0) & (self._spread >= 0))
        # By domain and in it best first: a node gets what those before it leave of what its domain may take.
        codes = self._spread[rows]
        order = np.lexsort((rows, self.keys[rows], -wanted[rows], codes))
        rows, codes = rows[order], codes[order]
        asked = wanted[rows].astype(np.int64)
        before = np.cumsum(asked) - asked
        is_first = np.diff(codes, prepend=-1) != 0
        firsts, numbers = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        most = np.array([self._left.get(code, self.gang.spread_most) // unit for code in codes[firsts].tolist()])
        if len(rows):
            granted[rows] = np.clip((most + before[firsts])[numbers] - before, 0, asked)
        return granted

    # --- slices -----------------------------------------------------------------------------------------

    def _across_nodes(self, slices: int) -> Iterator[tuple[int, int, list[int] | None]]:
        """Slices inside domains of one node or more: those that hold most slices first, the tightest for the rest."""
        unit = self.gang.slice_tasks
        codes = domain_codes(self.room.layout, self.gang, self.gang.slice_level)
        free = self._granted(self.free, unit=1) if self._is_finer_than_slices() else self.free
        inside = codes >= 0
        count = int(codes.max(initial=-1)) + 1
        held = np.bincount(codes[inside], weights=free[inside], minlength=count).astype(np.int64) // unit
        for code, own in self._pick(codes, held, slices):
            rows = np.flatnonzero((codes == code) & (free > 0))
            left = own * unit
            for row in rows[np.lexsort((rows, self.keys[rows], -free[rows]))].tolist():
                took = min(left, int(free[row]))
                left -= took
                if took:
                    yield row, took, None

    def _pick(self, codes: Ints, held: Ints, slices: int) -> Iterator[tuple[int, int]]:
        """Domains and how many slices each gets, within what the spread allows."""
        left: dict[int, int] = {}
        able = np.flatnonzero(held)
        while slices and len(able):
            caps = [min(int(held[code]), self._may_take(codes, int(code), left), slices) for code in able.tolist()]
            enough = [k for k, cap in enumerate(caps) if cap == slices]
            # The tightest that holds all the rest, else the one that holds most.
            k = (
                min(enough, key=lambda k: (int(held[able[k]]), int(able[k])))
                if enough
                else max(range(len(caps)), key=lambda k: (caps[k], -int(able[k])))
            )
            if not caps[k]:
                return
            code = int(able[k])
            self._note(codes, code, caps[k], left)
            slices -= caps[k]
            able = np.delete(able, k)
            yield code, caps[k]

    def _is_finer_than_slices(self) -> bool:
        """True when the spread's domains lie inside those of the slices."""
        ladder = self.gang.ladder()
        if not self.gang.spread_level or self.gang.spread_level not in ladder or self.gang.slice_level not in ladder:
            return False
        return ladder.index(self.gang.spread_level) < ladder.index(self.gang.slice_level)

    def _may_take(self, codes: Ints, code: int, left: dict[int, int]) -> int:
        if self._spread is None or self._is_finer_than_slices():
            return len(codes) * 1_000_000
        above = int(self._spread[int(np.argmax(codes == code))])
        if above < 0:
            return 0
        return max(0, left.get(above, self._left.get(above, self.gang.spread_most))) // self.gang.slice_tasks

    def _note(self, codes: Ints, code: int, slices: int, left: dict[int, int]) -> None:
        if self._spread is not None:
            above = int(self._spread[int(np.argmax(codes == code))])
            before = left.get(above, self._left.get(above, self.gang.spread_most))
            left[above] = before - slices * self.gang.slice_tasks

    def _inside_nodes(self, slices: int) -> Iterator[tuple[int, int, list[int] | None]]:
        """Slices inside islands, switches or sockets: fullest nodes first, and the tightest part that holds a slice."""
        layout, unit = self.room.layout, self.gang.slice_tasks
        part = layout.part(self.gang.slice_level)
        numbers = range(int(part.max(initial=-1)) + 1)
        per_part = [self._tasks_in(part == number) // unit for number in numbers]
        held = np.minimum(sum(per_part, np.zeros_like(self.free)), self.free // unit)
        granted = self._granted(held, unit=unit)
        rows = np.flatnonzero(granted)
        for row in rows[np.lexsort((rows, self.keys[rows]))].tolist():
            left = min(slices, int(granted[row]))
            slices -= left
            for number in sorted(numbers, key=lambda n: (int(per_part[n][row]), n)):
                took = min(left, int(per_part[number][row]))
                left -= took
                columns = np.flatnonzero(part[row] == number).tolist()
                for _ in range(took):
                    yield row, unit, columns
            if not slices:
                return

    def _tasks_in(self, columns: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Ints:
        """Per node how many tasks the GPUs of one part hold."""
        if self.need.gpus:
            found: Ints = (whole_gpus(self.room, self.kinds) & columns).sum(axis=1) // self.need.gpus
        elif self.need.is_share:
            found = np.where(columns, share_slots(self.room, self.need, self.kinds), 0).sum(axis=1)
        else:
            found = np.zeros_like(self.free)
        return found
