"""Fair share: at every level of the tree whoever used least lately, for its weight, goes next.

Use is decayed by the policy's half-life (`scoring.decay`), compared among siblings only, and a job that goes next
counts at once with what it is predicted to use: a burst of submissions does not all look poor.
"""

import numpy as np

from gangline_core.foresight.predict import UNKNOWN_RUN_S, predicted_seconds
from gangline_core.groups import ROOT
from gangline_core.ordering.scored import Scored
from gangline_core.ordering.turns import Branch, take_turns
from gangline_core.scoring.attained import service_milli
from gangline_core.scoring.columns import ASK
from gangline_core.scoring.waiting import Waiting

MILLION = 1_000_000


def fair_share(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, less the decayed use over weight of the job's top group when its turn comes.

    Use is in hours of the whole pool: 1 is what a group of weight 1 used when it had everything for an hour.
    """
    return take_turns(waiting, "fair_share", _Use(waiting), first)


class _Use:
    """Decayed use per weight, in GPU thousandths times ms."""

    def __init__(self, waiting: Waiting) -> None:
        self._groups = waiting.state.kept.groups
        rates = waiting.state.rates.get(waiting.pool.pool.name, {})
        self._used_before = waiting.pool.past.used_by(rates, waiting.now)
        run_s = predicted_seconds(waiting)
        run_s[run_s <= 0] = UNKNOWN_RUN_S
        costs = waiting.per(ASK, lambda job: service_milli(job.spec)) * run_s * 1000
        self._costs: list[int] = np.maximum(1, np.rint(costs)).astype(np.int64).tolist()
        room = waiting.state.room(waiting.pool.pool.name)
        whole = 1000 * sum(len(node.gpus) for node in room.nodes) or sum(node.cpu_milli for node in room.nodes) // 64
        self._hour = 3_600_000 * max(1, whole)
        self._used: list[int] = []
        self._wholes: list[int] = []
        """Per branch what counts as 1: an hour of the whole pool times the weight."""
        self._known: dict[str, int] = {}

    def enter(self, branch: Branch) -> None:
        number = self._known.get(branch.name)
        if number is None:
            number = self._known[branch.name] = len(self._used)
            self._used.append(self._used_before(branch.name))
            group = self._groups.get(branch.name) if branch.name != ROOT else None
            self._wholes.append(self._hour * max(1, group.weight) if group is not None else self._hour)
        branch.at = number

    def key(self, branch: Branch) -> tuple[int, int]:
        return MILLION * self._used[branch.at] // self._wholes[branch.at], 0

    def take(self, leaf: Branch, row: int) -> None:
        cost = self._costs[row]
        branch: Branch | None = leaf
        while branch is not None:
            self._used[branch.at] += cost
            branch = branch.parent
