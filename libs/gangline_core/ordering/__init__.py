"""Who goes next: one file per ordering, one table, and one rule for all of them about age and ties."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from gangline_core.ageing import starving, waiting_since_ms
from gangline_core.facts import Candidate
from gangline_core.job import Job
from gangline_core.ordering.fifo import fifo
from gangline_core.ordering.priority import priority
from gangline_core.ordering.scored import Scored
from gangline_core.ordering.weighted import weighted
from gangline_core.state import PoolState, State

ORDERINGS: dict[str, Callable[[State, PoolState, list[Job], int], Scored]] = {
    "fifo": fifo,
    "priority": priority,
    "weighted": weighted,
}
"""Name of a policy's ordering -> how it scores the waiting jobs; higher scores go first."""


class Ordered(Struct, frozen=True):
    """Jobs in order, first to last; scores and terms in millionths, a score is the sum of its terms."""

    terms: tuple[str, ...]
    candidates: list[Candidate]


def order(state: State, pool: PoolState, jobs: list[Job], now: int) -> Ordered:
    """Order waiting jobs by the pool's policy.

    Whoever has waited longer than the policy's starvation time goes first, oldest first, whatever the score. Every
    tie is broken by age, then by id.
    """
    scored = ORDERINGS[pool.policy.ordering](state, pool, jobs, now)
    if not jobs:
        return Ordered(terms=scored.names, candidates=[])
    since = waiting_since_ms(state, jobs)
    is_starving = starving(since, policy=pool.policy, now=now)
    scores = scored.totals(len(jobs))
    ids = np.fromiter((job.id for job in jobs), dtype=np.int64, count=len(jobs))
    sequence = np.lexsort((ids, since, np.where(is_starving, since, -scores), ~is_starving))
    columns = [column[sequence].tolist() for column in scored.columns]
    rows = zip(ids[sequence].tolist(), scores[sequence].tolist(), zip(*columns, strict=True), strict=True)
    return Ordered(terms=scored.names, candidates=[Candidate(job, score, terms) for job, score, terms in rows])
