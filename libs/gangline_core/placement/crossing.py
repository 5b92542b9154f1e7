"""What is held of a gang in slices that is spread, where the domains of the slices lie across those of the spread.

A slice stays inside one domain of its level (a rack, say), and under no domain of the other level (a power feed, say)
stand too many tasks. What lies in one rack and under one feed is a cell. Racks are gone through one after the other:
what they hold so far in whole slices is told by the tasks of each role, and by how many stand under each feed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from gangline_core.placement.together import Vector, Work, largest_of

Cell = tuple[int, int]
"""A domain of the slices and one of the spread."""
WORK_OF_STEP = 16
"""Work that one vector or one pair of vectors costs, which are looked at one by one here."""


class Sorts(NamedTuple):
    """What is counted: items (see `packing.Item`), and of these what is asked for in the end."""

    items: Vector
    """How many tasks of each item are of use."""
    axis: Vector
    """Per item the number of what it counts for."""
    wanted: Vector
    """How many tasks are asked for of each of those."""

    def by_role(self, vector: Sequence[int]) -> Vector:
        """Tasks of items as tasks of what they count for, whatever the model."""
        found = [0] * len(self.wanted)
        for axis, number in zip(self.axis, vector, strict=True):
            found[axis] += number
        return tuple(found)


class _Choice(NamedTuple):
    """Whole slices in one domain of theirs: tasks by item in each of its cells, in order."""

    parts: tuple[Vector, ...]
    roles: Vector
    spread: Vector
    """Tasks in each domain of the spread."""


class Crossed:
    """Cells that hang together by the domains that they share."""

    def __init__(
        self, held: Mapping[Cell, Sequence[Vector]], sorts: Sorts, *, unit: int, most: int, work: Work
    ) -> None:
        """`held` are the largest vectors of items of each cell; slices are of `unit` tasks, a spread allows `most`."""
        self._held, self._sorts, self._work = held, sorts, work
        self._unit, self._most = unit, most
        self._feeds = sorted({feed for _, feed in held})
        self._racks = [
            [cell for cell in sorted(held) if cell[0] == rack] for rack in sorted({rack for rack, _ in held})
        ]
        nothing = ((0,) * len(sorts.wanted), (0,) * len(self._feeds))
        self._reached: list[dict[tuple[Vector, Vector], _Choice | None]] = [{nothing: None}]
        """After each rack what is held, and what the rack then adds."""
        for cells in self._racks:
            self._add(cells)
        self.tops = largest_of((roles for roles, _ in self._reached[-1]), work)

    def split(self, wanted: Vector) -> dict[Cell, Vector]:
        """Tasks by item in each cell for so many tasks of each role, whole slices of each."""
        state = min(state for state in self._reached[-1] if state[0] == wanted)
        found: dict[Cell, Vector] = dict.fromkeys(self._held, (0,) * len(self._sorts.items))
        for cells, reached in zip(self._racks[::-1], self._reached[:0:-1], strict=True):
            choice = reached[state]
            if choice is not None:
                found |= dict(zip(cells, choice.parts, strict=True))
                state = (_less(state[0], choice.roles), _less(state[1], choice.spread))
        return found

    def _add(self, cells: Sequence[Cell]) -> None:
        """One more rack."""
        before, wanted = self._reached[-1], self._sorts.wanted
        after: dict[tuple[Vector, Vector], _Choice | None] = dict.fromkeys(before)
        choices = list(self._choices(cells))
        self._work.spend(WORK_OF_STEP * len(before) * len(choices))
        for roles, spread in before:
            for choice in choices:
                state = (_sum(roles, choice.roles), _sum(spread, choice.spread))
                if max(state[1]) <= self._most and all(map(int.__le__, state[0], wanted)):
                    after.setdefault(state, choice)
        self._reached.append(after)

    def _choices(self, cells: Sequence[Cell]) -> Iterator[_Choice]:
        """Every number of whole slices of each item, however their tasks lie in the cells."""
        seen: set[tuple[Vector, Vector]] = set()
        for parts in product(*(self._below(cell) for cell in cells)):
            self._work.spend(WORK_OF_STEP)
            tasks = [sum(numbers) for numbers in zip(*parts, strict=True)]
            if not any(tasks) or any(number % self._unit for number in tasks):
                continue
            under = dict.fromkeys(self._feeds, 0) | {feed: sum(p) for (_, feed), p in zip(cells, parts, strict=True)}
            choice = _Choice(parts, self._sorts.by_role(tasks), tuple(under.values()))
            if choice[1:] not in seen:
                seen.add(choice[1:])
                yield choice

    def _below(self, cell: Cell) -> list[Vector]:
        """Every vector of items that the cell holds and the spread allows."""
        found: set[Vector] = set()
        for top in self._held[cell]:
            ranges = [range(min(number, most) + 1) for number, most in zip(top, self._sorts.items, strict=True)]
            for vector in product(*ranges):
                self._work.spend(WORK_OF_STEP)
                if sum(vector) <= self._most:
                    found.add(vector)
        return sorted(found)


def components(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells that hang together by the domains that they share, in order."""
    above: dict[tuple[str, int], tuple[str, int]] = {}

    def root(domain: tuple[str, int]) -> tuple[str, int]:
        while above.setdefault(domain, domain) != domain:
            above[domain] = domain = above[above[domain]]
        return domain

    for rack, feed in cells:
        above[root(("rack", rack))] = root(("feed", feed))
    found: dict[tuple[str, int], list[Cell]] = {}
    for cell in sorted(cells):
        found.setdefault(root(("rack", cell[0])), []).append(cell)
    return sorted(found.values())


def _sum(one: Vector, other: Vector) -> Vector:
    return tuple(map(int.__add__, one, other))


def _less(one: Vector, other: Vector) -> Vector:
    return tuple(map(int.__sub__, one, other))
