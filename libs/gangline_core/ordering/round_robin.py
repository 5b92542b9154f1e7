"""Round robin: groups take turns, one job each, and inside a group its users do; the longest without a turn begins."""

from gangline_core.ordering.scored import Scored
from gangline_core.ordering.turns import Branch, take_turns
from gangline_core.scoring.waiting import Waiting

MILLION = 1_000_000


def round_robin(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, less the turns that the job's top group has before it."""
    return take_turns(waiting, "turns_before", _Turns(waiting.pool.turns), first)


class _Turns:
    """Turns of this look, and when a branch last had one."""

    def __init__(self, last: dict[str, int]) -> None:
        self._last = last
        self._taken: dict[str, int] = {}

    def enter(self, branch: Branch) -> None:
        self._taken.setdefault(branch.name, 0)

    def key(self, branch: Branch) -> tuple[int, int]:
        return self._taken[branch.name] * MILLION, self._last.get(branch.name, 0)

    def take(self, leaf: Branch, row: int) -> None:
        branch: Branch | None = leaf
        while branch is not None:
            self._taken[branch.name] += 1
            branch = branch.parent
