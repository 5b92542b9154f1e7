"""Guarantees of shape: which parts of the topology each group is owed, and where they are now.

A cell is a part of the topology tree: an NVLink island, a switch, a socket, a node, or a domain above. A pool promises
groups so many cells of a kind (`Pool.cells`), and a kind is a level, alone or narrowed to a GPU model or a node label.
A promised cell is bound to a real one only while jobs of the group use it; what is promised but not bound is packed
into what is left, largest cells first, in thought, at every decision. As long as that packing holds everything, a job
that fits its group's cells can always start at once. A pinned cell is bound to one real cell for good.

Source: Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020, sections 3.1 to 3.3.
The free lists of buddy allocation are worked out anew from what is free, so a decision depends on nothing that is not
in the folded state. Where hardware is broken and the packing does not hold everything, the last cells in order of level
and group name are the doomed ones.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct

from gangline_core.cluster import LEVELS_INSIDE_NODE, PinnedCell, Pool
from gangline_core.groups import ancestors
from gangline_core.room.layout import NO_KIND, Flags, Ints, Layout

SEPARATOR = ":"
NARROWED = "@"
"""Between a level and the model or label of its GPUs."""


class Cell(Struct, frozen=True, order=True):
    """One part of the topology, by kind and by its name at that level."""

    level: str
    """The kind: a level, or a level with a model or label."""
    name: str


class Owned(Struct, frozen=True):
    """A real cell that stands for one that a group is owed."""

    group: str
    cell: Cell
    leaves: Flags
    """The GPUs in it: nodes x GPU indexes."""
    pin: str = ""
    """Its name, for a pinned one."""

    @property
    def label(self) -> str:
        """How tasks in the cell carry it."""
        return SEPARATOR.join((self.group, self.cell.level, self.cell.name))


class Wanted(Struct, frozen=True):
    """Who is about to be placed, so that cells that are only thought of make way for it."""

    group: str | None
    gpus: Flags
    """The GPUs it could use at all."""


class Tree:
    """The cells of a layout of the kinds that promises name, largest level first."""

    def __init__(self, layout: Layout, topology: Mapping[str, str], kinds: Iterable[str]) -> None:
        """The tree of these nodes; `topology` names the levels above them, smallest first."""
        ladder = [*LEVELS_INSIDE_NODE, *topology]
        self._layout = layout
        self._rung = {level: ladder.index(level) for level in ladder}
        wanted = {kind for kind in kinds if level_of(kind) in self._rung}
        # Of one level the narrowed kinds come first, since the others can do with more cells.
        self.levels = sorted(wanted, key=lambda kind: (-self._rung[level_of(kind)], NARROWED not in kind, kind))
        self.there = layout.socket >= 0
        self.healthy = (layout.kind != NO_KIND) & layout.works[:, None]
        """GPUs that new work may use: broken ones and those of lost or drained nodes are none."""
        self._codes = {kind: _codes(layout, topology, level_of(kind)) for kind in self.levels}
        self._names = {kind: _names(layout, topology, level_of(kind)) for kind in self.levels}

    def leaves(self, cell: Cell) -> Flags:
        """The GPUs in a cell; none when there is no such cell any more."""
        number = self._names.get(cell.level, {}).get(cell.name)
        if number is None:
            return np.zeros_like(self.there)
        found: Flags = (self._codes[cell.level] == number) & self.there
        return found

    def whole(self, kind: str, available: Flags) -> list[Cell]:
        """Cells of a kind in which every GPU is available: those that break least above them first, then by name."""
        codes = self._codes[kind]
        count = max(self._names[kind].values(), default=0) + 1
        size = np.bincount(codes[self.there & (codes >= 0)], minlength=count)
        free = np.bincount(codes[available & self._suits[kind] & (codes >= 0)], minlength=count)
        found = [cell for cell, number in self._names[kind].items() if size[number] and size[number] == free[number]]
        above = [larger for larger in self.levels if self._rung[level_of(larger)] > self._rung[level_of(kind)]]
        breaks = {name: self._breaks(Cell(kind, name), above, available) for name in found}
        return [Cell(kind, name) for name in sorted(found, key=lambda name: (breaks[name], name))]

    @cached_property
    def _suits(self) -> dict[str, Flags]:
        """Per kind the GPUs of its model or label."""
        return {kind: self.there & _narrowed(self._layout, kind) for kind in self.levels}

    def _breaks(self, cell: Cell, above: list[str], available: Flags) -> int:
        """The size of the largest wholly available cell around this one."""
        leaf = tuple(int(k) for k in np.argwhere(self.leaves(cell))[0])
        for kind in above:
            around = (self._codes[kind] == self._codes[kind][leaf]) & self.there
            if self._codes[kind][leaf] >= 0 and bool((available | ~around).all()):
                return int(around.sum())
        return 0

    def is_nested(self) -> bool:
        """True when every cell lies inside one cell of each larger level."""
        one_each = {level_of(kind): kind for kind in self.levels}
        for large, small in zip(list(one_each.values()), list(one_each.values())[1:], strict=False):
            pairs = {
                (int(s), int(b))
                for s, b in zip(self._codes[small][self.there], self._codes[large][self.there], strict=True)
                if s >= 0
            }
            if len({s for s, _ in pairs}) < len(pairs):
                return False
        return True


def level_of(kind: str) -> str:
    """The level of a kind of cell."""
    return kind.partition(NARROWED)[0]


def _narrowed(layout: Layout, kind: str) -> Flags:
    """The GPUs that have the model or stand on nodes with the label that a kind names; all where it names none."""
    by = kind.partition(NARROWED)[2]
    if not by:
        return np.ones(layout.kind.shape, dtype=np.bool_)
    label, equals, value = by.partition("=")
    if equals:
        has = [node.labels.get(label) == value for node in layout.nodes]
        return np.broadcast_to(np.array(has, dtype=np.bool_)[:, None], layout.kind.shape)
    found = np.zeros(layout.kind.shape, dtype=np.bool_)
    for row, node in enumerate(layout.nodes):
        # By what the node reports, so that a broken GPU still is of its model.
        for gpu in node.gpus:
            found[row, gpu.index] = gpu.model.lower() == by.lower()
    return found


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
    """Group and kind of every cell without a place."""


def pack(
    tree: Tree,
    owed: Mapping[str, Mapping[str, int]],
    available: Flags,
    busy: Ints | None = None,
    wanted: Wanted | None = None,
) -> Packing:
    """Places for all these cells, largest first; cells whose `busy` GPUs weigh least, as they would be cleared, first.

    Which of several equal cells stands for a promise is free to choose. So whoever is `wanted` finds the cells of its
    group where it may stand, and those of others where it may not.
    """
    left = available.copy()
    placed: list[Owned] = []
    missing: list[tuple[str, str]] = []
    for kind in tree.levels:
        for group in sorted(owed):
            for _ in range(owed[group].get(kind, 0)):
                cells = tree.whole(kind, left)
                if not cells:
                    missing.append((group, kind))
                    continue
                leaves = {cell: tree.leaves(cell) for cell in cells}
                cell = min(cells, key=lambda cell: (_unwanted(leaves[cell], group, wanted), _sum(leaves[cell], busy)))
                left &= ~leaves[cell]
                placed.append(Owned(group=group, cell=cell, leaves=leaves[cell]))
    return Packing(placed=placed, missing=missing)


def _sum(leaves: Flags, weights: Ints | None) -> int:
    return 0 if weights is None else int(weights[leaves].sum())


def _unwanted(leaves: Flags, group: str, wanted: Wanted | None) -> int:
    """GPUs of a cell that are where they should not be: of the own group out of reach, of another one in the way."""
    if wanted is None:
        return 0
    return int((leaves & (~wanted.gpus if group == wanted.group else wanted.gpus)).sum())


def kinds_of(cells: Mapping[str, Mapping[str, int]], pinned: Iterable[PinnedCell] = ()) -> set[str]:
    """Kinds of cells that any promise names, and levels of pinned ones."""
    return {kind for own in cells.values() for kind in own} | {pin.level for pin in pinned}


def owner_of(cells: Mapping[str, Mapping[str, int]], group: str) -> str | None:
    """The group, or the nearest one above it, that is owed cells."""
    return next((path for path in ancestors(group) if path in cells), None)


def label_of(label: str) -> tuple[str, Cell]:
    """Group and cell of a task's label."""
    group, level, name = label.split(SEPARATOR, 2)
    return group, Cell(level, name)


def pinned_cells(tree: Tree, pinned: Mapping[str, PinnedCell]) -> list[Owned]:
    """The pinned cells that the nodes have, by name."""
    found: list[Owned] = []
    for name, pin in sorted(pinned.items()):
        cell = Cell(pin.level, pin.cell)
        leaves = tree.leaves(cell)
        if leaves.any():
            found.append(Owned(group=pin.group, cell=cell, leaves=leaves, pin=name))
    return found


def promise_fault(layout: Layout, pool: Pool) -> str | None:
    """Why these promises cannot all be kept even by well machines; None when they can."""
    topology, cells = pool.topology, pool.cells
    fault = _words_fault(pool)
    if fault is not None:
        return fault
    tree = Tree(layout, topology, kinds_of(cells, pool.pinned.values()))
    if not tree.is_nested():
        levels = list(dict.fromkeys(level_of(kind) for kind in tree.levels))
        return f"cells of {' and '.join(levels)} do not lie inside each other on these machines"
    pins = pinned_cells(tree, pool.pinned)
    left = tree.there.copy()
    for pin in pins:
        if bool((pin.leaves & ~left).any()):
            return f"the pinned cell {pin.pin} shares GPUs with another one"
        left &= ~pin.leaves
    for name in sorted(set(pool.pinned) - {pin.pin for pin in pins}):
        pin_cell = pool.pinned[name]
        return f"there is no {pin_cell.level} {pin_cell.cell!r} to pin as {name}"
    packing = pack(tree, cells, left)
    return _lack(tree, cells, left, packing) if packing.missing else None


def _words_fault(pool: Pool) -> str | None:
    """What is wrong with the promises whatever the machines are."""
    ladder = (*LEVELS_INSIDE_NODE, *pool.topology)
    for group, own in sorted(pool.cells.items()):
        for kind, count in sorted(own.items()):
            if level_of(kind) not in ladder:
                return f"{group} is owed cells of level {level_of(kind)!r}, which is none of {', '.join(ladder)}"
            if kind.endswith(NARROWED) or SEPARATOR in kind:
                return f"{kind!r} is no kind of cell; write a level, or a level with @MODEL or @label=value"
            if count < 1:
                return f"{group} is owed {count} cells of level {kind}; it must be at least 1"
    for name, pin in sorted(pool.pinned.items()):
        if pin.level not in ladder:
            return f"the pinned cell {name} is of level {pin.level!r}, which is none of {', '.join(ladder)}"
    return None


def _lack(tree: Tree, cells: Mapping[str, Mapping[str, int]], left: Flags, packing: Packing) -> str:
    group, kind = packing.missing[0]
    owed = sum(own.get(kind, 0) for own in cells.values())
    before = tree.levels[: tree.levels.index(kind)]
    above = [placed for placed in packing.placed if placed.cell.level in before]
    left = left & ~np.logical_or.reduce([placed.leaves for placed in above] or [np.zeros_like(tree.there)])
    return (
        f"{owed} cells of level {kind} are promised and only {len(tree.whole(kind, left))} are left"
        f"{' beside the larger ones' if above else ''}; {group} would get too few"
    )
