"""Who waits for what a group keeps to itself is looked at again when somebody starts: what is used it keeps no more."""

from gangline_core.reasons import ReasonCode
from gangline_core.state import State


def waits_for_lenders(state: State, pool: str) -> bool:
    """True when a waiting job of the pool was told that what it asks for is not lent."""
    if not state.door.lenders:
        return False
    jobs = (state.kept.jobs[job] for job in state.waiting.get(pool, ()))
    return any(job.reason is not None and job.reason.code == ReasonCode.NOT_LENT for job in jobs)
