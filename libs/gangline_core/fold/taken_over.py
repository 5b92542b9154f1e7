"""Who went for a job went for whoever takes over what is cleared for it: it will not have that one go in turn.

Priority and guarantees may point in a circle: one goes for a second by priority, a third takes over the room of that,
and the first is owed what the third then has. Each would go for the next one without end.
"""

from collections.abc import Iterator, Sequence

from gangline_core import facts as f
from gangline_core.fold.jobs import yields_to
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.state import State


def pass_on(state: State, decided: f.RoundDecided) -> None:
    """Before the claims that a round gives up are dropped: their victims yield to those who get that room in it."""
    went: list[JobId] | None = None
    for name in decided.claims_dropped:
        claim, loser = state.kept.claims.get(name), state.job(name)
        heirs = sorted(_heirs(decided, claim)) if claim is not None else []
        if went is None and heirs:
            went = sorted(_who_went(state, decided.pool))
        for victim in list(_gone_for(state, went or [], loser)) if heirs and loser is not None else ():
            for heir in heirs:
                if heir != victim:
                    state.put_job(yields_to(state.kept.jobs[victim], heir))


def _heirs(decided: f.RoundDecided, claim: f.Claim) -> set[JobId]:
    """Who starts or has a claim by this decision on a node on which the claim's job would have been."""
    nodes = {place.node for place in claim.placement.tasks}
    placed = [*decided.placements, *(other.placement for other in decided.claims)]
    return {one.job for one in placed if one.job != claim.job and not nodes.isdisjoint(task.node for task in one.tasks)}


def _who_went(state: State, pool: str) -> set[JobId]:
    """Jobs that are still stopping, or wait in this pool, and went for others."""
    names = {*(state.kept.tasks[task].job for task in state.stopping_tasks), *state.waiting.get(pool, {})}
    return {name for name in names if state.kept.jobs[name].yielded_to}


def _gone_for(state: State, went: Sequence[JobId], loser: Job) -> Iterator[JobId]:
    """Who of them went for the job since it waits: those that are still stopping, and those that wait again."""
    stopping = {state.kept.tasks[task].job for task in state.stopping_tasks}
    for name in went:
        job = state.kept.jobs[name]
        if loser.id in job.yielded_to and name != loser.id and (name in stopping or job.queued_ms >= loser.queued_ms):
            yield name
