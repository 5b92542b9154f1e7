"""Guarantees of shape: which parts of the topology each group is owed, and where they are now.

A cell is a part of the topology tree: an NVLink island, a switch, a socket, a node, or a domain above. A pool promises
groups so many cells of a level (`Pool.cells`). A promised cell is bound to a real one only while jobs of the group use
it; what is promised but not bound is packed into what is left, largest cells first, in thought, at every decision. As
long as that packing holds everything, a job that fits its group's cells can always start at once.

Source: Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020, sections 3.1 to 3.3.
The free lists of buddy allocation are worked out anew from what is free, so a decision depends on nothing that is not
in the folded state. Where hardware is broken and the packing does not hold everything, the last cells in order of level
and group name are the doomed ones.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.groups import ancestors
from gangline_core.layout import NO_KIND, Flags, Ints, Layout

SEPARATOR = ":"


class Cell(Struct, frozen=True, order=True):
    """One part of the topology, by level and by its name at that level."""

    level: str
    name: str


class Owned(Struct, frozen=True):
    """A real cell that stands for one that a group is owed."""

    group: str
    cell: Cell
    leaves: Flags
    """The GPUs in it: nodes x GPU indexes."""

    @property
    def label(self) -> str:
        """How tasks in the cell carry it."""
        return SEPARATOR.join((self.group, self.cell.level, self.cell.name))


class Tree:
    """The cells of a layout at the levels that promises name, largest level first."""

    def __init__(self, layout: Layout, topology: Mapping[str, str], levels: Iterable[str]) -> None:
        """The tree of these nodes; `topology` names the levels above them, smallest first."""
        ladder = [*LEVELS_INSIDE_NODE, *topology]
        wanted = set(levels)
        self.levels = [level for level in reversed(ladder) if level in wanted]
        self.there = layout.socket >= 0
        self.healthy = (layout.kind != NO_KIND) & layout.works[:, None]
        """GPUs that new work may use: broken ones and those of lost or drained nodes are none."""
        self._codes = {level: _codes(layout, topology, level) for level in self.levels}
        self._names = {level: _names(layout, topology, level) for level in self.levels}

    def leaves(self, cell: Cell) -> Flags:
        """The GPUs in a cell; none when there is no such cell any more."""
        number = self._names.get(cell.level, {}).get(cell.name)
        if number is None:
            return np.zeros_like(self.there)
        found: Flags = (self._codes[cell.level] == number) & self.there
        return found

    def whole(self, level: str, available: Flags) -> list[Cell]:
        """Cells of a level in which every GPU is available: those that break least above them first, then by name."""
        codes = self._codes[level]
        count = max(self._names[level].values(), default=0) + 1
        size = np.bincount(codes[self.there & (codes >= 0)], minlength=count)
        free = np.bincount(codes[available & (codes >= 0)], minlength=count)
        found = [cell for cell, number in self._names[level].items() if size[number] and size[number] == free[number]]
        above = self.levels[: self.levels.index(level)]
        breaks = {name: self._breaks(Cell(level, name), above, available) for name in found}
        return [Cell(level, name) for name in sorted(found, key=lambda name: (breaks[name], name))]

    def _breaks(self, cell: Cell, above: list[str], available: Flags) -> int:
        """The size of the largest wholly available cell around this one."""
        leaf = tuple(int(k) for k in np.argwhere(self.leaves(cell))[0])
        for level in above:
            around = (self._codes[level] == self._codes[level][leaf]) & self.there
            if self._codes[level][leaf] >= 0 and bool((available | ~around).all()):
                return int(around.sum())
        return 0

    def is_nested(self) -> bool:
        """True when every cell lies inside one cell of each larger level."""
        for large, small in zip(self.levels, self.levels[1:], strict=False):
            pairs = {
                (int(s), int(b))
                for s, b in zip(self._codes[small][self.there], self._codes[large][self.there], strict=True)
                if s >= 0
            }
            if len({s for s, _ in pairs}) < len(pairs):
                return False
        return True


def _codes(layout: Layout, topology: Mapping[str, str], level: str) -> Ints:
    """Per GPU the number of its cell at a level, -1 where it is in none."""
    rows = np.arange(len(layout.nodes), dtype=np.int64)[:, None]
    if level in LEVELS_INSIDE_NODE:
        part = layout.part(level).astype(np.int64)
        return np.where(part >= 0, rows * layout.width + part, -1)
    codes = np.broadcast_to(layout.domains(topology[level])[0][:, None], layout.kind.shape)
    return np.where(layout.socket >= 0, codes, -1)


def _names(layout: Layout, topology: Mapping[str, str], level: str) -> dict[str, int]:
    """Number of each cell by its name."""
    if level not in LEVELS_INSIDE_NODE:
        return {name: k for k, name in enumerate(layout.domains(topology[level])[1])}
    width = layout.width
    return {
        f"{node.id}" if level == "node" else f"{node.id}/{part}": row * width + part
        for row, node in enumerate(layout.nodes)
        for part in range(width if level != "node" else 1)
    }


class Packing(Struct, frozen=True):
    """Where cells that are owed but not in use would be, and which find no place."""

    placed: list[Owned]
    missing: list[tuple[str, str]]
    """Group and level of every cell without a place."""


def pack(tree: Tree, owed: Mapping[str, Mapping[str, int]], available: Flags, busy: Flags | None = None) -> Packing:
    """Places for all these cells, largest first; cells with fewest busy GPUs (which would have to be cleared) first."""
    left = available.copy()
    placed: list[Owned] = []
    missing: list[tuple[str, str]] = []
    for level in tree.levels:
        for group in sorted(owed):
            for _ in range(owed[group].get(level, 0)):
                cells = tree.whole(level, left)
                if not cells:
                    missing.append((group, level))
                    continue
                cell = min(cells, key=lambda cell: _busy(tree, cell, busy))
                leaves = tree.leaves(cell)
                left &= ~leaves
                placed.append(Owned(group=group, cell=cell, leaves=leaves))
    return Packing(placed=placed, missing=missing)


def _busy(tree: Tree, cell: Cell, busy: Flags | None) -> int:
    return 0 if busy is None else int((busy & tree.leaves(cell)).sum())


def levels_of(cells: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Levels that any promise names."""
    return {level for own in cells.values() for level in own}


def owner_of(cells: Mapping[str, Mapping[str, int]], group: str) -> str | None:
    """The group, or the nearest one above it, that is owed cells."""
    return next((path for path in ancestors(group) if path in cells), None)


def label_of(label: str) -> tuple[str, Cell]:
    """Group and cell of a task's label."""
    group, level, name = label.split(SEPARATOR, 2)
    return group, Cell(level, name)


def promise_fault(layout: Layout, topology: Mapping[str, str], cells: Mapping[str, Mapping[str, int]]) -> str | None:
    """Why these promises cannot all be kept even by well machines; None when they can."""
    ladder = (*LEVELS_INSIDE_NODE, *topology)
    for group, own in sorted(cells.items()):
        for level, count in sorted(own.items()):
            if level not in ladder:
                return f"{group} is owed cells of level {level!r}, which is none of {', '.join(ladder)}"
            if count < 1:
                return f"{group} is owed {count} cells of level {level}; it must be at least 1"
    tree = Tree(layout, topology, levels_of(cells))
    if not tree.is_nested():
        return f"cells of {' and '.join(tree.levels)} do not lie inside each other on these machines"
    packing = pack(tree, cells, tree.there)
    if not packing.missing:
        return None
    group, level = packing.missing[0]
    owed = sum(own.get(level, 0) for own in cells.values())
    larger = tree.levels[: tree.levels.index(level)]
    above = [placed for placed in packing.placed if placed.cell.level in larger]
    left = tree.there & ~np.logical_or.reduce([placed.leaves for placed in above] or [np.zeros_like(tree.there)])
    return (
        f"{owed} cells of level {level} are promised and only {len(tree.whole(level, left))} are left"
        f"{' beside the larger ones' if above else ''}; {group} would get too few"
    )
