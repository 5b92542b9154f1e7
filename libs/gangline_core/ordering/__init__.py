"""Who goes next: one file per ordering, one table, and one rule for all of them about age and ties."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.facts import Candidate
from gangline_core.job import Job
from gangline_core.ordering.dominant_resource import dominant_resource
from gangline_core.ordering.fair_share import fair_share
from gangline_core.ordering.fifo import fifo
from gangline_core.ordering.finish_time import finish_time
from gangline_core.ordering.gavel import gavel
from gangline_core.ordering.gittins import gittins
from gangline_core.ordering.least_attained import least_attained
from gangline_core.ordering.letting_pass import let_pass, with_term
from gangline_core.ordering.priority import priority
from gangline_core.ordering.round_robin import round_robin
from gangline_core.ordering.scored import EVERYBODY, Ordering, Scored
from gangline_core.ordering.shortest_predicted import shortest_predicted
from gangline_core.ordering.topped import put_first
from gangline_core.ordering.weighted import weighted
from gangline_core.scoring.columns import Ints
from gangline_core.scoring.waiting import Waiting
from gangline_core.state import PoolState, State

ORDERINGS: dict[str, Ordering] = {
    "dominant_resource": dominant_resource,
    "fair_share": fair_share,
    "fifo": fifo,
    "finish_time": finish_time,
    "gavel": gavel,
    "gittins": gittins,
    "least_attained": least_attained,
    "priority": priority,
    "round_robin": round_robin,
    "shortest_predicted": shortest_predicted,
    "weighted": weighted,
}
"""Name of a policy's ordering -> how it scores the waiting jobs; higher scores go first."""


class Ordered(Struct, frozen=True):
    """Jobs in order, first to last; scores and terms in millionths, a score is the sum of its terms."""

    terms: tuple[str, ...]
    candidates: list[Candidate]


class Ranking(Struct, frozen=True):
    """The same as columns, of which only the candidates that are wanted become values."""

    terms: tuple[str, ...]
    rows: Ints
    """Rows of the waiting jobs, first to last."""
    ids: Ints
    """Job ids, first to last."""
    scores: Ints
    columns: list[Ints]
    """Terms, by row."""
    exact: int
    """So many of the first are in their true order, which is all of them unless the ordering takes turns."""

    def candidates(self, places: Ints) -> list[Candidate]:
        """The candidates at these places of the order, the first of all being 0."""
        rows = self.rows[places]
        terms = [column[rows].tolist() for column in self.columns]
        found = zip(self.ids[places].tolist(), self.scores[places].tolist(), zip(*terms, strict=True), strict=True)
        return [Candidate(job, score, own) for job, score, own in found]


def order(state: State, pool: PoolState, jobs: list[Job], now: int) -> Ordered:
    """Order waiting jobs by the pool's policy, all of them."""
    ranking = rank(Waiting.of(state, pool, jobs, now=now))
    everybody = np.arange(len(jobs))
    return Ordered(terms=ranking.terms, candidates=ranking.candidates(everybody) if jobs else [])


def _places(scored: Scored, rows: int) -> Ints:
    """Where each row stands, lower places first; equal ones are ordered by age."""
    if scored.sequence is None:
        return -scored.totals(rows)
    place = np.empty(rows, dtype=np.int64)
    place[scored.sequence] = np.arange(rows)
    return place


def rank(waiting: Waiting, first: int = EVERYBODY, *, starving: NDArray[np.bool_] | None = None) -> Ranking:
    """Order waiting jobs by the pool's policy; only the first so many need be exact.

    Whoever has waited longer than the policy's starvation time goes first, oldest first, whatever the score, while a
    part of the pool is left to such jobs (see `scoring.first_by_age`); or those that are named. Who checkpoints and had
    its share lets others pass, the more the longer it needs still (see `letting_pass`). Every tie is broken by age,
    then by id.
    """
    is_starving = waiting.starving if starving is None else starving
    moved = (waiting.yield_queue > 0) & ~is_starving
    scored = ORDERINGS[waiting.policy.ordering](waiting, first + int(moved.sum()))
    place = _places(scored, len(waiting))
    keys = [waiting.ids, waiting.since]
    if moved.any():
        keys += [np.where(moved, place, 0), np.where(moved, waiting.yield_queue, 0)]
        place, scored = let_pass(waiting, moved, place), with_term(waiting, moved, scored)
    sequence = np.lexsort((*keys, np.where(is_starving, waiting.since, place), ~is_starving))
    sequence = put_first(waiting, sequence)
    return Ranking(
        terms=scored.names,
        rows=sequence,
        ids=waiting.ids[sequence],
        scores=scored.totals(len(waiting))[sequence],
        columns=scored.columns,
        exact=len(waiting) if scored.sequence is None else first,
    )
