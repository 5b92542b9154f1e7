"""Groups and users take turns: at every level of the tree whoever has least goes next, and what it takes counts.

The tree has groups as inner nodes and users as leaves. Orderings say what "least" means by a `Meter`; the walk is the
same for all. Whoever is chosen only ever gets more, so the keys chosen at the root never fall, and a longer look would
only continue the order.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gangline_core.groups import ROOT, user_key
from gangline_core.ordering.scored import Scored, bands
from gangline_core.scoring import columns as c
from gangline_core.scoring.formula import quantised
from gangline_core.scoring.waiting import Waiting


class Branch:
    """A group or a user that has jobs waiting, or is above one that has."""

    __slots__ = ("at", "children", "heap", "name", "next", "parent", "rows")

    def __init__(self, name: str, parent: "Branch | None") -> None:
        """A branch without jobs or children yet; `name` is its group path or user_key."""
        self.name = name
        self.parent = parent
        self.children: dict[str, Branch] = {}
        self.rows: list[int] = []
        """Rows of a user's jobs, first to last."""
        self.next = 0
        self.heap: list[tuple[tuple[int, int], str, Branch]] = []
        self.at = 0
        """A number that the meter may use to find what it keeps for this branch."""


class Meter(Protocol):
    """Measures what branches have."""

    def enter(self, branch: Branch) -> None:
        """A branch takes part; its parent has entered before it."""

    def key(self, branch: Branch) -> tuple[int, int]:
        """How much the branch has; the smallest goes next, and the first number is in millionths."""

    def take(self, leaf: Branch, row: int) -> None:
        """The job of this row goes next, and counts for the leaf and all above it."""


def take_turns(waiting: Waiting, term: str, meter: Meter, first: int) -> Scored:
    """Order the jobs by turns, level by level of the queue; only the first so many need be exact."""
    band = bands(waiting)
    inside = np.lexsort((waiting.ids, waiting.since, -waiting.field(c.PRIORITY), -band))
    keys = np.zeros(len(waiting), dtype=np.int64)
    sequence: list[int] = []
    for part in _parts(band[inside]):
        rows = inside[part].tolist()
        if len(sequence) < first:
            sequence += _walk(waiting, rows, meter, keys, first - len(sequence))
        else:
            sequence += rows
    columns = [quantised(band), -keys]
    return Scored(names=("level", term), columns=columns, sequence=np.array(sequence, dtype=np.int64))


def _parts(band: NDArray[np.float64]) -> list[slice]:
    """Where each run of equal bands is."""
    borders = [0, *(np.flatnonzero(np.diff(band)) + 1).tolist(), len(band)]
    return [slice(start, end) for start, end in pairwise(borders) if end > start]


def _walk(waiting: Waiting, rows: list[int], meter: Meter, keys: NDArray[np.int64], first: int) -> list[int]:
    """These rows in turns; the key at the root at which each was chosen goes into `keys`."""
    root = _plant(waiting, rows, meter.enter)
    _fill(root, meter)
    chosen: list[int] = []
    roots: list[int] = []
    while root.heap and len(chosen) < first:
        branch = root
        while branch.heap:
            branch = branch.heap[0][2]
        row = branch.rows[branch.next]
        branch.next += 1
        chosen.append(row)
        roots.append(root.heap[0][0][0])
        meter.take(branch, row)
        _settle(branch, meter)
    keys[chosen] = roots
    if len(chosen) < len(rows):
        is_left = np.ones(len(waiting), dtype=np.bool_)
        is_left[chosen] = False
        places = np.array(rows, dtype=np.int64)
        left = places[is_left[places]]
        keys[left] = root.heap[0][0][0]
        chosen += left.tolist()
    return chosen


def _settle(leaf: Branch, meter: Meter) -> None:
    """Everything on the way up stands at its new place; branches without further jobs are left out."""
    branch, is_over = leaf, leaf.next == len(leaf.rows)
    while branch.parent is not None:
        heap = branch.parent.heap
        if is_over:
            heappop(heap)
        else:
            heapreplace(heap, (meter.key(branch), branch.name, branch))
        branch = branch.parent
        is_over = not heap


def _plant(waiting: Waiting, rows: list[int], enter: Callable[[Branch], None]) -> Branch:
    """The tree of everybody who has one of these jobs; rows keep their order inside each leaf."""
    root = Branch(ROOT, None)
    enter(root)
    members = waiting.columns.members
    places = np.array(rows, dtype=np.int64)
    holders = waiting.field(c.HOLDER)[places]
    by_holder = np.argsort(holders, kind="stable")
    starts = np.flatnonzero(np.diff(holders[by_holder], prepend=-1))
    firsts = holders[by_holder[starts]].tolist()
    borders = pairwise([*starts.tolist(), len(places)])
    own = places[by_holder].tolist()
    inner = {ROOT: root}
    for holder, (start, end) in zip(firsts, borders, strict=True):
        group, user = members[holder]
        leaf = _child(_inner(inner, group, enter), user_key(group, user), enter)
        leaf.rows = own[start:end]
    return root


def _inner(known: dict[str, Branch], group: str, enter: Callable[[Branch], None]) -> Branch:
    """The branch of a group, with those above it where they are new."""
    branch = known.get(group)
    if branch is None:
        above = _inner(known, group.rpartition("/")[0], enter)
        branch = known[group] = _child(above, group, enter)
    return branch


def _child(above: Branch, name: str, enter: Callable[[Branch], None]) -> Branch:
    child = above.children[name] = Branch(name, above)
    enter(child)
    return child


def _fill(branch: Branch, meter: Meter) -> None:
    for child in branch.children.values():
        _fill(child, meter)
    branch.heap = [(meter.key(child), child.name, child) for child in branch.children.values()]
    heapify(branch.heap)
