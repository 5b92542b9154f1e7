"""A job that goes on where it stopped starts again on GPUs on which it is faster, once those are free and nobody waits.

It was placed on the best of what was free then. It would stay on slower GPUs to its end otherwise, beside idle ones
that do the same work in a fraction of the time. What is faster is known as for its placement (see
`foresight.affinity`). Only who says that it goes on where it stopped moves, after some time on what it has, and only
where the time won until its end is more than starting again costs. Each move ends on a faster model, so moves come to
an end.
"""

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from gangline_core.cluster import Policy, model_of
from gangline_core.elasticity.giving import keeps_shelter, seats_on
from gangline_core.elasticity.locality import MOVES_MAX, at_rest
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import RESTART_COST_S, cost_s, left_s
from gangline_core.foresight.affinity import better_than
from gangline_core.job import Job, JobState
from gangline_core.limits.budgets import cost_alike
from gangline_core.placement.gang import Seats
from gangline_core.room.capacity import Room
from gangline_core.spec import Role, starts_again
from gangline_core.state import State


def may_move(state: State, pool: str) -> bool:
    """True when the pool has GPUs of several models, all for one price, and its policy heeds what is faster.

    A cheap look.
    """
    kept, models = state.kept, state.room(pool).layout.by_number
    return kept.pools[pool].policy.model_affinity and len(models) > 1 and cost_alike(kept.prices, models)


def move_times(state: State, pool: str, *, after: int) -> Iterator[int]:
    """When, later than `after`, running jobs may move to what is free now, soonest first: time alone brings that."""
    free = _free(state.room(pool)) if may_move(state, pool) else frozenset[str]()
    known, policy = state.kept.affinities, state.kept.pools[pool].policy
    jobs = [state.kept.jobs[name] for name in state.live.get(pool, {})] if free else []
    able = ((_moves_from_ms(job, policy), job) for job in jobs if job.state == JobState.RUNNING and _lets_go(job))
    # What a job likes is looked up last, as that is dear.
    for from_ms, job in sorted((one for one in able if one[0] > after), key=itemgetter(0)):
        if not free.isdisjoint(better_than(known, job.spec, known.models.get(job.id, ""))):
            yield from_ms


def faster(view: View) -> list[Target]:
    """Jobs that go on elsewhere, by id; what one takes no other is promised."""
    free = _free(view.table.room) if may_move(view.state, view.pool) else frozenset[str]()
    targets: list[Target] = []
    for one, models in _movable(view, free) if free else ():
        if len(targets) == MOVES_MAX:
            break
        for model in models:
            seats = seats_on(view.table, view.table.room, one.job, one.role, one.size, model)
            if seats is not None and keeps_shelter(view.table, one.job, seats):
                for place in seats.tasks:
                    view.table.room.take(place)
                targets.append(
                    Target(job=one.job, role=one.role.name, size=one.size, why=_why(view, seats), model=model)
                )
                break
    return targets


def _why(view: View, seats: Seats) -> str:
    """As its users write the model."""
    place = next(place for place in seats.tasks if place.gpus)
    return f"faster on {model_of(view.state.kept.nodes[place.node], place.gpus[0].index)}"


def _free(room: Room) -> frozenset[str]:
    """Models of which anything may be free, so that in a full pool nobody's speeds are looked at."""
    kinds = room.layout.kinds
    numbers = set(np.unique(room.layout.kind[room.milli > 0]).tolist())
    return frozenset(kind.model for number, kind in enumerate(kinds) if kind.mig or number in numbers)


def _movable(view: View, free: frozenset[str]) -> Iterator[tuple[Elastic, list[str]]]:
    """Running jobs, and the free models on which they win more than it costs to start again there, fastest first."""
    kept, policy = view.state.kept, view.table.policy
    for one in at_rest(view, lambda job: _lets_go(job) and _moves_from_ms(job, policy) <= view.now):
        here = kept.affinities.models.get(one.job.id, "")
        if not here or not free - {here}:
            continue
        time_left_s, cost = left_s(one, view.now), cost_s(one) or RESTART_COST_S
        speeds = better_than(kept.affinities, one.job.spec, here)
        models = [model for model, speed in speeds.items() if model in free and time_left_s * (1 - 1 / speed) > cost]
        if models := [model for model in models if _accepts(one.role, model, here)]:
            yield one, models


def _lets_go(job: Job) -> bool:
    """True for a job that goes on where it stopped, and let nobody promise it that it would never be stopped."""
    spec = job.spec
    return starts_again(spec) and spec.preemptible and spec.protected_s >= 0 and not spec.stays


def _moves_from_ms(job: Job, policy: Policy) -> int:
    """When its run has lasted some time, and nothing protects it any more."""
    return job.started_ms + 1000 * max(policy.yield_run_s, job.spec.protected_s)


def _accepts(role: Role, model: str, here: str) -> bool:
    """True for a model that the job does not refuse; of those that it names, best first, one before that it is on."""
    named = [each.lower() for each in role.resources.gpu_models]
    better = named[: named.index(here)] if here in named else named
    return (not named or model in better) and model not in map(str.lower, role.resources.exclude_models)
