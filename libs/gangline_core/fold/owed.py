"""Who is owed its guarantee is looked at again when others start that borrow it and may be paused for it at once.

Such a job does not stand back for whoever would reclaim what it takes, as one that would be evicted does: it loses
nothing (see `making_room.standing_back`). In the round in which it starts it is in nobody's way yet, so it is the next
one that has it paused.
"""

from gangline_core import facts as f
from gangline_core.groups import ancestors
from gangline_core.limits.rungs import folded
from gangline_core.spec import may_pause, may_take
from gangline_core.state import State


def is_asked_back(state: State, fact: f.RoundDecided) -> bool:
    """True when somebody waits who might have one that starts in this round paused for its guarantee."""
    started = [job for placement in fact.placements if (job := state.job(placement.job)) is not None]
    takers = {job.spec.group for job in started if may_pause(job.spec) and job.spec.preemptible}
    if not takers or not state.kept.pools[fact.pool].policy.preemption:
        return False
    unused = {path for path in state.kept.groups if _has_unused(state, path)}
    if not unused:
        return False
    waiting = (state.kept.jobs[job].spec for job in state.waiting.get(fact.pool, ()))
    owed = {frozenset(unused.intersection(ancestors(spec.group))) for spec in waiting if may_take(spec)}
    return any(not paths.issubset(ancestors(taker)) for paths in owed for taker in takers)


def _has_unused(state: State, path: str) -> bool:
    """True when the group is promised more than it uses."""
    used = state.usage.get(path, {})
    return any(used.get(name, 0) < amount for name, amount in folded(state.kept.groups[path].guaranteed).items())
