"""What nodes, racks and blocks hold of a gang together, where slices stay inside domains or tasks stand apart."""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.placement.crossing import Cell, Crossed, Sorts, components
from gangline_core.placement.gang import Gang
from gangline_core.placement.packing import Machine
from gangline_core.placement.shaped import domain_codes
from gangline_core.placement.together import Stack, Vector, Work, cut
from gangline_core.room.capacity import Ints, Layout


class Holder:
    """A node or a domain, and the largest vectors that it holds."""

    __slots__ = ("crossed", "machine", "members", "origin", "row", "stack", "tops")

    def __init__(
        self,
        tops: list[Vector],
        row: int,
        *,
        machine: Machine | None = None,
        members: Sequence["Holder"] = (),
        stack: Stack | None = None,
        origin: dict[Vector, Vector] | None = None,
        crossed: Crossed | None = None,
    ) -> None:
        """A node with its machine, or a domain with its members; `row` is the node, or the first of them."""
        self.tops, self.row, self.machine, self.members, self.stack = tops, row, machine, members, stack
        self.origin = origin
        """Where it tells in roles what its members tell by model: for every vector of roles one by model."""
        self.crossed = crossed
        """How its members, which are cells, hold it together."""


class Tree:
    """How the holders of one gang are put together."""

    def __init__(self, layout: Layout, gang: Gang, sorts: Sorts, work: Work) -> None:
        """For this gang on these nodes."""
        self._layout, self._gang, self._sorts, self._work = layout, gang, sorts, work
        self._ladder = gang.ladder()
        wanted = {gang.spread_level, gang.slice_level if gang.slice_tasks else ""} - {*LEVELS_INSIDE_NODE, ""}
        self.is_known = all(level in self._ladder for level in wanted)
        """False where the gang's shape names a level that the pool does not have."""
        levels = sorted(wanted, key=self._ladder.index) if self.is_known else []
        self._levels = [(level, domain_codes(layout, gang, level)) for level in levels]
        self._numbers: dict[tuple[Vector, ...], int] = {}
        self._known: dict[Hashable, tuple[Stack, list[Vector], dict[Vector, Vector] | None]] = {}

    @property
    def is_flat(self) -> bool:
        """True when no domain counts but the pool, so that only what nodes hold tells them apart."""
        return not self._levels

    def leaf(self, tops: list[Vector], row: int, machine: Machine) -> Holder:
        """A node that holds these vectors of items."""
        gang = self._gang
        if gang.slice_tasks and gang.slice_level in LEVELS_INSIDE_NODE:
            found, origin = self._by_role(tops)
            return Holder(found, row, machine=machine, origin=origin)
        return Holder(tops, row, machine=machine)

    def top(self, leaves: Iterable[Holder]) -> Holder:
        """Nodes put together level by level; those that lie in no domain of a level are left out."""
        holders = list(leaves)
        for depth, (level, codes) in enumerate(self._levels):
            groups: dict[int, list[Holder]] = {}
            for holder in holders:
                if (code := int(codes[holder.row])) >= 0:
                    groups.setdefault(code, []).append(holder)
            if depth + 1 < len(self._levels) and not _is_nested(self._levels[depth + 1][1], groups.values()):
                return self._domain(None, self._across(holders))
            holders = [self._domain(level, members) for _, members in sorted(groups.items())]
        return self._domain(None, holders)

    def classes(self, row: int) -> tuple[bool, ...]:
        """Whether the node lies in a domain of each level of the gang's shape."""
        return tuple(int(codes[row]) >= 0 for _, codes in self._levels)

    def parts(self, holder: Holder, wanted: Vector) -> Iterator[tuple[Holder, Vector]]:
        """The nodes that take part in holding this vector, each with its tasks by item."""
        if not any(wanted):
            return
        if holder.crossed is not None:
            split = holder.crossed.split(wanted)
            for member, (_, part) in zip(holder.members, sorted(split.items()), strict=True):
                yield from self.parts(member, part)
            return
        if holder.origin is not None:
            wanted = self._by_item(holder.origin, wanted)
        if holder.stack is None:
            yield holder, wanted
            return
        for member, part in zip(holder.members, holder.stack.split(wanted), strict=True):
            yield from self.parts(member, part)

    # --- one domain -------------------------------------------------------------------------------------

    def _domain(self, level: str | None, members: Sequence[Holder]) -> Holder:
        """What these hold together, after what the level asks; None is the top, where only the sum counts."""
        holding = [member for member in members if any(map(any, member.tops))]
        numbers = {id(member): self._number(member.tops) for member in holding}
        holding.sort(key=lambda member: (-max(map(sum, member.tops)), numbers[id(member)]))
        chosen = self._of_use(holding, numbers)
        key = (level, *(numbers[id(member)] for member in chosen))
        known = self._known.get(key)
        if known is None:
            by_item = level is not None and self._is_by_item(level)
            stack = Stack(self._sorts.items if by_item else self._sorts.wanted, self._work)
            for member in chosen:
                stack.add(member.tops)
                if stack.is_full:
                    break
            tops, origin = ([], None) if level is None else self._ruled(level, stack)
            known = self._known[key] = (stack, tops, origin)
        stack, tops, origin = known
        row = members[0].row if members else -1
        return Holder(tops, row, members=chosen[: len(stack.tops)], stack=stack, origin=origin)

    def _across(self, leaves: Sequence[Holder]) -> list[Holder]:
        """Nodes put together by what hangs together, where domains of the slices lie across those of the spread."""
        gang, found = self._gang, list[Holder]()
        codes = dict(self._levels)
        racks, feeds = codes[gang.slice_level], codes[gang.spread_level]
        cells: dict[Cell, list[Holder]] = {}
        for leaf in leaves:
            cell = (int(racks[leaf.row]), int(feeds[leaf.row]))
            if min(cell) >= 0:
                cells.setdefault(cell, []).append(leaf)
        held = {cell: self._cell(members) for cell, members in cells.items()}
        for together in components(list(cells)):
            tops = {cell: held[cell].tops for cell in together}
            crossed = Crossed(tops, self._sorts, unit=gang.slice_tasks, most=gang.spread_most, work=self._work)
            members = [held[cell] for cell in together]
            found.append(Holder(crossed.tops, members[0].row, members=members, crossed=crossed))
        return found

    def _cell(self, members: Sequence[Holder]) -> Holder:
        """What nodes in one domain of the slices and one of the spread hold, whatever slices and spread ask."""
        stack = Stack(self._sorts.items, self._work)
        for member in members:
            stack.add(member.tops)
        return Holder(stack.largest(), members[0].row, members=members, stack=stack)

    def _of_use(self, holding: Sequence[Holder], numbers: dict[int, int]) -> list[Holder]:
        """No more alike than there are tasks."""
        count: dict[int, int] = {}
        chosen = []
        for member in holding:
            number = numbers[id(member)]
            count[number] = count.get(number, 0) + 1
            if count[number] <= self._gang.tasks:
                chosen.append(member)
        return chosen

    def _number(self, tops: list[Vector]) -> int:
        """Equal for holders that hold the same."""
        return self._numbers.setdefault(tuple(tops), len(self._numbers))

    def _is_by_item(self, level: str) -> bool:
        """True when what is inside a domain of this level is told by item: slices are not closed below it."""
        gang = self._gang
        if not gang.slice_tasks or gang.slice_level in LEVELS_INSIDE_NODE:
            return False
        return self._ladder.index(level) <= self._ladder.index(gang.slice_level)

    def _ruled(self, level: str, stack: Stack) -> tuple[list[Vector], dict[Vector, Vector] | None]:
        """What a domain holds once slices are whole and the spread is kept."""
        gang, origin, tops = self._gang, None, stack.largest()
        in_slices = bool(gang.slice_tasks) and not (self._is_by_item(level) and level != gang.slice_level)
        unit = gang.slice_tasks if in_slices else 1
        if gang.slice_tasks and level == gang.slice_level:
            tops, origin = self._by_role(cut(tops, (), self._work, unit=unit))
        if level == gang.spread_level and tops:
            tops = cut(tops, [((1,) * len(tops[0]), gang.spread_most)], self._work, unit=unit)
        return tops, origin

    # --- slices of one model each -----------------------------------------------------------------------

    def _by_role(self, tops: Sequence[Vector]) -> tuple[list[Vector], dict[Vector, Vector]]:
        """The same by role, whatever the model, and for each of these one of the vectors by model."""
        origin: dict[Vector, Vector] = {}
        for top in tops:
            origin.setdefault(tuple(map(min, self._sorts.by_role(top), self._sorts.wanted)), top)
        return cut(origin, (), self._work), origin

    def _by_item(self, origin: dict[Vector, Vector], wanted: Vector) -> Vector:
        """So many tasks of each role as tasks of items."""
        able = next(top for vector, top in origin.items() if all(map(int.__ge__, vector, wanted)))
        left, found = list(wanted), []
        for axis, number in zip(self._sorts.axis, able, strict=True):
            part = min(number, left[axis])
            left[axis] -= part
            found.append(part)
        return tuple(found)


def _is_nested(above: Ints, groups: Iterable[Sequence[Holder]]) -> bool:
    """True when no domain lies across two larger ones."""
    return all(len({int(above[member.row]) for member in members}) < 2 for members in groups)
