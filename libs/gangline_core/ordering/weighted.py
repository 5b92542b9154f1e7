"""The administrator's formula: a weighted sum of named factors, every term of it kept."""

import numpy as np

from gangline_core.ordering.scored import Scored
from gangline_core.scoring.factors import SHARE_FACTORS, Table, uses_shares
from gangline_core.scoring.formula import Term, compile_formula
from gangline_core.scoring.surroundings import unmeasured
from gangline_core.scoring.waiting import Waiting


def weighted(waiting: Waiting, first: int) -> Scored:
    """The score is the policy's formula, term by term.

    When the formula looks at shares, jobs are ordered once by present shares, and then each group's share counts what
    its own earlier jobs ask for: equal groups take turns inside one round instead of the first one taking everything.
    """
    formula = compile_formula(waiting.policy.formula)
    table = Table(waiting)
    rows = len(waiting)
    columns = formula.evaluate(table.column, rows)
    names = tuple(_said(term, waiting) for term in formula.terms)
    if uses_shares(formula.names) and rows > 1:
        scores = Scored(names=names, columns=columns).totals(rows)
        table.count_ahead(np.lexsort((waiting.ids, waiting.since, -scores)))
        columns = formula.again(columns, table.column, changed=SHARE_FACTORS)
    return Scored(names=names, columns=columns)


def _said(term: Term, waiting: Waiting) -> str:
    """A term as the administrator wrote it, and what it rests on where that is no measurement."""
    if "load" not in term.names:
        return term.text
    without, gpus = unmeasured(waiting)
    return f"{term.text} (load of {without} of {gpus} GPUs as asked for, not measured)" if without else term.text
