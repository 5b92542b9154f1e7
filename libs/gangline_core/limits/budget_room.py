"""When does a safe budget have room for somebody without anything happening? As jobs cost less than they could.

A running job is counted with its largest size on the dearest model that it accepts, for as long as it may still run. So
what it could still cost falls faster than what it has cost grows, wherever it is smaller, or on a cheaper card.
"""

from collections.abc import Iterator

import numpy as np

from gangline_core.groups import ancestors
from gangline_core.ids import JobId
from gangline_core.limits.budgets import GPU_HOUR, safe_budgets, worst_cost
from gangline_core.limits.spending import bound_cost
from gangline_core.scoring import columns as c
from gangline_core.state import State, count

SLOPE_MS = 1_000
"""Over this time it is seen how fast what is counted falls."""
LEAST_MS = 1_000
"""Nobody looks more often."""


def budget_room_ms(state: State, pool: str, now: int) -> int | None:
    """The first time at which a budget has room for a waiting job that it has none for now; None when it never has.

    What is counted falls ever more slowly, so it is a time before which nobody need look.
    """
    columns = state.columns[pool]
    slots = columns.slots()
    _, first = np.unique(columns.field(slots, c.SHAPE), return_index=True)
    jobs = (state.kept.jobs[JobId(job)] for job in columns.field(slots[first], c.ID).tolist())
    safe = [job for job in jobs if not state.door.safe_groups.keys().isdisjoint(ancestors(job.spec.group))]
    if not safe:
        return None
    bound, soon = bound_cost(state, now), bound_cost(state, now + SLOPE_MS)
    for own in (state.kept.jobs[job] for job in state.kept.claims):
        # Whoever has room cleared for it is counted as if it ran already.
        for path in ancestors(own.spec.group):
            for counted in (bound, soon):
                count(counted, path, worst_cost(own.spec, state.kept.prices))

    def waits_ms(group: str, cost: int) -> Iterator[int | None]:
        for budget in safe_budgets(state, group):
            missing = bound.get(budget.group, 0) + cost - budget.hours * GPU_HOUR
            falls = bound.get(budget.group, 0) - soon.get(budget.group, 0)
            if missing > 0:
                yield -(-missing * SLOPE_MS // falls) if falls > 0 else None

    found: list[int] = []
    for job in safe:
        waits = list(waits_ms(job.spec.group, worst_cost(job.spec, state.kept.prices)))
        known = [wait for wait in waits if wait is not None]
        if known and len(known) == len(waits):
            found.append(max(known))
    return now + max(LEAST_MS, min(found)) if found else None
