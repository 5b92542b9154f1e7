"""What groups could give to others, remembered branch by branch of the group tree.

What a group keeps of its guarantee depends on the groups above it up to where its way and the beneficiary's meet. So
for all in a branch that parts from the beneficiary's way it is the same, whoever that is, and what was found for a
branch holds until something is taken or given below it: of many groups one decision changes what a few of them use.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

from gangline_core.groups import ancestors, user_of
from gangline_core.limits.quota import Ledger

Answer = TypeVar("Answer")


class Total:
    """A sum over all branches of a group."""

    __slots__ = ("amount", "parts", "stale")

    def __init__(self, stale: set[str]) -> None:
        """Nothing is counted yet."""
        self.amount = 0
        self.parts: dict[str, int] = {}
        self.stale = stale
        """Branches of which something is another since they were counted."""


class Branches:
    """The groups in which jobs live."""

    def __init__(self, ledger: Ledger, groups: Iterable[str]) -> None:
        """Nothing is remembered yet; what the ledger counts is followed from now on."""
        self._moved: set[str] = set()
        ledger.watching.append(self._moved)
        self._groups: dict[str, list[str]] = {}
        """The groups of each branch, by the group at its foot."""
        self._children: dict[str, dict[str, None]] = {}
        self._known: dict[str, dict[Hashable, Any]] = {}
        self._totals: dict[str, dict[Hashable, Total]] = {}
        """Sums over all branches of a group."""
        for group in groups:
            for branch, above in pairwise(ancestors(group)):
                self._groups.setdefault(branch, []).append(group)
                self._children.setdefault(above, {})[branch] = None

    def beside(self, way: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Each branch that parts from a way up, and the group of the way from which it does."""
        passed: str | None = None
        for path in way:
            yield from ((branch, path) for branch in self._children.get(path, ()) if branch != passed)
            passed = path

    def total(self, way: Iterable[str], key: Hashable, find: Callable[[str, list[str]], int]) -> int:
        """The sum of what `find` finds for each branch that parts from a way up, told where it does."""
        self._forget_moved()
        most, passed = 0, None
        for path in way:
            known = self._totals.setdefault(path, {}).get(key)
            if known is None:
                known = self._totals[path][key] = Total(set(self._children.get(path, ())))
            for branch in known.stale:
                new = find(path, self._groups[branch])
                known.amount += new - known.parts.get(branch, 0)
                known.parts[branch] = new
            known.stale.clear()
            most += known.amount - (known.parts.get(passed, 0) if passed is not None else 0)
            passed = path
        return most

    def remember(self, branch: str, key: Hashable, find: Callable[[list[str]], Answer]) -> Answer:
        """What `find` finds for the groups of a branch, or found since anything changed there."""
        self._forget_moved()
        known = self._known.setdefault(branch, {})
        found: Answer | None = known.get(key)
        if found is None:
            found = known[key] = find(self._groups[branch])
        return found

    def forget(self, group: str) -> None:
        """Something is another in this group."""
        for branch, above in pairwise(ancestors(group)):
            self._known.pop(branch, None)
            if branch in self._groups:
                for total in self._totals.get(above, {}).values():
                    total.stale.add(branch)

    def _forget_moved(self) -> None:
        if self._moved:
            for group in {user_of(holder)[0] for holder in self._moved}:
                self.forget(group)
            self._moved.clear()


def way_to(group: str, under: Iterable[str] | None) -> tuple[str, ...]:
    """The way from a group up to the topmost of these holders on it, which may be its users; to the root for None."""
    way = ancestors(group)
    if under is None:
        return way
    tops = [way.index(path) for path, user in map(user_of, under) if not user]
    return way[: max(tops) + 1] if tops else ()
