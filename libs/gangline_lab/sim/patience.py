"""When is it in vain to simulate on? While machines fail and come back, something always happens.

So a run that waits for its jobs to be over could last for ever. It is in vain when a job lost all of its work to
failures so often in a row that it hardly ever ends, or when all that is left waits while machines come and go, and
nothing is foreseen.
"""

from collections.abc import Mapping

from gangline_core.counted import counted
from gangline_core.groups import ROOT
from gangline_core.ids import JobId
from gangline_core.state import State
from gangline_lab.sim.runs import Run

LOST_MAX = 1_000
"""Runs in a row of which a failure left a job nothing; whoever ends with one in a hundred of them is long over."""
IDLE_MAX = 10_000
"""Failures in a row while all that is left waits: gangs that need many machines wait until these are there at once."""


class Patience:
    """What failures did to no avail."""

    def __init__(self, state: State, runs: Mapping[JobId, Run]) -> None:
        """Nothing has failed yet."""
        self._state, self._runs = state, runs
        self._idle = 0

    def spent(self, *, left: int, is_foreseen: bool) -> str:
        """After a failure, with so many jobs not over: why it is in vain to go on; empty while it is not."""
        for job, run in self._runs.items():
            if run.in_vain >= LOST_MAX:
                return (
                    f"job {self._state.kept.jobs[job].spec.name} lost all of its work to failures {run.in_vain:,} "
                    "times in a row, and would hardly ever end: let it make checkpoints (checkpoint_s), or let nodes "
                    "fail less often (node_mtbf_hours)"
                )
        is_all_here = self._state.unfinished.get(ROOT, 0) >= left
        is_idle = is_all_here and not is_foreseen and not any(self._state.live.values())
        self._idle = self._idle + 1 if is_idle else 0
        if self._idle < IDLE_MAX:
            return ""
        return f"{counted(left, 'job')} did not start through {self._idle:,} failures, and nothing else is left"
