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


class Listed:
    """What is found in all branches of a group, without those in which nothing is."""

    __slots__ = ("parts", "stale")

    def __init__(self, stale: set[str]) -> None:
        """Nothing is looked for yet."""
        self.parts: dict[str, list[Any]] = {}
        self.stale = stale
        """Branches of which something is another since they were looked at."""


class Branches:
    """The groups in which jobs live."""

    def __init__(self, ledger: Ledger, groups: Iterable[str]) -> None:
        """Nothing is remembered yet; what the ledger counts is followed from now on."""
        self._moved: set[str] = set()
        ledger.watching.append(self._moved)
        self._groups: dict[str, list[str]] = {}
        """The groups of each branch, by the group at its foot."""
        self._children: dict[str, dict[str, None]] = {}
        self._totals: dict[str, dict[Hashable, Total]] = {}
        """Sums over all branches of a group."""
        self._lists: dict[str, dict[Hashable, Listed]] = {}
        """What is in each of them."""
        for group in groups:
            for branch, above in pairwise(ancestors(group)):
                self._groups.setdefault(branch, []).append(group)
                self._children.setdefault(above, {})[branch] = None

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

    def listed(
        self, way: Iterable[str], key: Hashable, find: Callable[[str, list[str]], list[Answer]]
    ) -> Iterator[list[Answer]]:
        """What `find` finds for each branch that parts from a way up, told where it does, if that is anything."""
        self._forget_moved()
        passed: str | None = None
        for path in way:
            known = self._lists.setdefault(path, {}).get(key)
            if known is None:
                known = self._lists[path][key] = Listed(set(self._children.get(path, ())))
            for branch in known.stale - {passed}:
                known.parts[branch] = find(path, self._groups[branch])
                if not known.parts[branch]:
                    del known.parts[branch]
            known.stale.intersection_update((passed,))
            yield from (found for branch, found in known.parts.items() if branch != passed)
            passed = path

    def forget(self, group: str) -> None:
        """Something is another in this group."""
        for branch, above in pairwise(ancestors(group)):
            if branch in self._groups:
                for total in self._totals.get(above, {}).values():
                    total.stale.add(branch)
                for known in self._lists.get(above, {}).values():
                    known.stale.add(branch)

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
