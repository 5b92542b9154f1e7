"""The administrator's formula: a weighted sum of named factors, every term of it kept."""

import numpy as np

from gangline_core.ageing import waiting_since_ms
from gangline_core.factors import Table, uses_shares
from gangline_core.formula import compile_formula
from gangline_core.job import Job
from gangline_core.ordering.scored import Scored
from gangline_core.state import PoolState, State


def weighted(state: State, pool: PoolState, jobs: list[Job], now: int) -> Scored:
    """The score is the policy's formula, term by term.

    When the formula looks at shares, jobs are ordered once by present shares, and then each group's share counts what
    its own earlier jobs ask for: equal groups take turns inside one round instead of the first one taking everything.
    """
    formula = compile_formula(pool.policy.formula)
    table = Table(state, pool, jobs, now=now)
    columns = formula.evaluate(table.column, len(jobs))
    names = tuple(term.text for term in formula.terms)
    if uses_shares(formula.names):
        first = Scored(names=names, columns=columns).totals(len(jobs))
        ids = np.fromiter((job.id for job in jobs), dtype=np.int64, count=len(jobs))
        table.count_ahead(np.lexsort((ids, waiting_since_ms(state, jobs), -first)))
        columns = formula.evaluate(table.column, len(jobs))
    return Scored(names=names, columns=columns)
