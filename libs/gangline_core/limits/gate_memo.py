"""What the gates found out below limits, kept from round to round for as long as nothing changes there.

What is left below a limit and whom it keeps out follow from settings and from what lives below the topmost holder that
limits or guarantees anything on a job's way up. So both are worked out anew only when something stirs there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, ancestors, user_key
from gangline_core.making_room.live_index import LiveIndex
from gangline_core.reasons import Reason

KEPT_MAX = 1 << 16
"""Verdicts that are kept; then all are forgotten."""
SHAPES_MAX = 1 << 18
"""Shapes of which they are kept."""
Member = tuple[str, str]
"""A group and one of its users."""
VerdictKey = tuple[str, str, int, str, int, str, bool, bool]
Verdict = tuple[Reason | None, str]
"""The reason, and the holder whose limit it is."""


class Left(NamedTuple):
    """What is left of each limited dimension on a member's way up."""

    room: dict[str, int]
    has_own: bool
    """The user has limits of its own."""


class GateMemo:
    """The memory of one pool's gates under one set of rules."""

    def __init__(self, live: LiveIndex, policy: Policy, pool: Pool) -> None:
        """Nothing found yet."""
        self._live, self._rules, self._policy, self._pool = live, live.rules, policy, pool
        self._tops: dict[Member, str] = {}
        self._left: dict[Member, tuple[int, Left]] = {}
        self._verdicts: dict[VerdictKey, tuple[int, Verdict]] = {}
        self._shapes: dict[int, tuple[int, Verdict]] = {}
        """By shape, whose numbers no two shapes ever share."""

    def holds(self, policy: Policy, pool: Pool) -> bool:
        """True while the same rules hold."""
        return self._rules == self._live.rules and self._policy is policy and self._pool is pool

    def left(self, member: Member, groups: Mapping[str, Group], work_out: Callable[[], Left]) -> Left:
        """What is left for a member."""
        stamp = self.stamp(member, groups)
        known = self._left.get(member)
        if known is None or known[0] != stamp:
            known = self._left[member] = (stamp, work_out())
        return known[1]

    def verdict(self, key: VerdictKey, member: Member, groups: Mapping[str, Group]) -> Verdict | None:
        """What was found for such jobs, if it still holds."""
        known = self._verdicts.get(key)
        return known[1] if known is not None and known[0] == self.stamp(member, groups) else None

    def keep(self, key: VerdictKey, member: Member, groups: Mapping[str, Group], verdict: Verdict) -> None:
        """Remember what was found for such jobs."""
        if len(self._verdicts) >= KEPT_MAX:
            self._verdicts.clear()
        self._verdicts[key] = (self.stamp(member, groups), verdict)

    def of_shapes(self, shapes: Sequence[int], stamps: Sequence[int]) -> list[Verdict | None]:
        """What was found for all jobs of each shape, where it still holds; with the stamp of the member of each."""
        known = map(self._shapes.get, shapes)
        return [one[1] if one and one[0] == stamp else None for one, stamp in zip(known, stamps, strict=True)]

    def keep_shape(self, shape: int, stamp: int, verdict: Verdict) -> None:
        """Remember what was found for all jobs of a shape."""
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self._shapes[shape] = (stamp, verdict)

    def stamp(self, member: Member, groups: Mapping[str, Group]) -> int:
        """A number that changes with whatever could change what was found for a member."""
        top = self._tops.get(member)
        if top is None:
            top = self._tops[member] = _top(member, groups)
        return self._live.stirred.get(top, 0)


def _top(member: Member, groups: Mapping[str, Group]) -> str:
    """The topmost holder above a member that limits or guarantees anything; the member itself when none does."""
    group, user = member
    for path in reversed(ancestors(group)):
        known = groups.get(path)
        if known is not None and (known.limit or known.guaranteed or known.borrow_limit or known.user_limit):
            return path
    return user_key(group, user)
