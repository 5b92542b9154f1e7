"""Strict priority: the queue level's band plus the job's own priority; equals go by age."""

from gangline_core.ordering.scored import Scored
from gangline_core.scoring.factors import Table
from gangline_core.scoring.formula import quantised
from gangline_core.scoring.waiting import Waiting

TERMS = ("level", "priority")


def priority(waiting: Waiting, first: int) -> Scored:
    """The score is level plus priority."""
    table = Table(waiting)
    return Scored(names=TERMS, columns=[quantised(table.column(term)) for term in TERMS])
