"""Whom a limit keeps out in one pool since somebody started in another: that pool is looked at again and says so.

A limit holds in all pools together, and each tells its own jobs why they wait, at its own rounds. Whoever waits there
for anything else would be told that for as long as nothing else happens, and what comes back below the limit would not
be kept for it.
"""

from collections.abc import Collection

from gangline_core.ids import JobId
from gangline_core.limits.gates import Sieve
from gangline_core.room.holds import is_limited
from gangline_core.state import State


def keeps_others_out(state: State, pool: str, started: Collection[JobId], at: int) -> bool:
    """True when a job waits in another pool that is told something else than what keeps it out by now."""
    if not started or len(state.kept.pools) == 1:
        return False
    if not any(is_limited(state, job) for job in map(state.job, started) if job is not None):
        return False
    return any(
        state.waiting.get(other) and Sieve(state, other, at).changed() for other in state.kept.pools if other != pool
    )
