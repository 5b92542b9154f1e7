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

    def remember(self, branch: str, key: Hashable, find: Callable[[list[str]], Answer]) -> Answer:
        """What `find` finds for the groups of a branch, or found since anything changed there."""
        if self._moved:
            for holder in self._moved:
                self.forget(user_of(holder)[0])
            self._moved.clear()
        known = self._known.setdefault(branch, {})
        found: Answer | None = known.get(key)
        if found is None:
            found = known[key] = find(self._groups[branch])
        return found

    def forget(self, group: str) -> None:
        """Something is another in this group."""
        for branch in ancestors(group):
            self._known.pop(branch, None)


def way_to(group: str, under: Iterable[str] | None) -> tuple[str, ...]:
    """The way from a group up to the topmost of these holders on it, which may be its users; to the root for None."""
    way = ancestors(group)
    if under is None:
        return way
    tops = [way.index(path) for path, user in map(user_of, under) if not user]
    return way[: max(tops) + 1] if tops else ()
