"""Strict priority: the queue level's band plus the job's own priority; equals go by age."""

from gangline_core.factors import Table
from gangline_core.formula import quantised
from gangline_core.job import Job
from gangline_core.ordering.scored import Scored
from gangline_core.state import PoolState, State

TERMS = ("level", "priority")


def priority(state: State, pool: PoolState, jobs: list[Job], now: int) -> Scored:
    """The score is level plus priority."""
    table = Table(state, pool, jobs, now=now)
    return Scored(names=TERMS, columns=[quantised(table.column(term)) for term in TERMS])
