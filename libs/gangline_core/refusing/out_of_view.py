"""May a job that a round did not look at fare better than those it looked at? Then another round follows at once.

Where room alone counts, nobody does who asks for what somebody in view lacked to the end: what is free only gets less
in a round.
"""

import numpy as np

from gangline_core.facts import RoundOpened
from gangline_core.in_view import kinds_of
from gangline_core.making_room.service_order import orders_by_service
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import ReasonCode
from gangline_core.refusing.crowd import is_plain
from gangline_core.scoring import columns as c
from gangline_core.scoring.waiting import Waiting
from gangline_core.scoring.yield_queue import has_yielding
from gangline_core.table import Table

PLAIN_CODES = ROOM_CODES - {ReasonCode.RESERVED, ReasonCode.POSTPONED}
"""What holds for all who ask for the same, however long they run and whosever they are."""


def may_fare_better(table: Table, opened: RoundOpened) -> bool:
    """True when somebody out of view may start beside what this round decided, or may have others go.

    So where the round tells by itself whether another follows: all were in view, or some that are like those out of
    view and came last were left waiting.
    """
    started = {placement.job for placement in table.placements}
    is_told = opened.waiting <= len(opened.candidates) or not (opened.is_cut or started.intersection(opened.edges))
    if is_told or not started or table.unseen:
        return True
    columns, policy = table.state.columns.get(table.pool.pool.name), table.policy
    if columns is None or table.resumes or orders_by_service(policy) or not is_plain(table):
        return True
    waiting = Waiting(table.state, table.pool, (columns, columns.slots()), now=table.now)
    is_unseen = np.ones(len(waiting), dtype=np.bool_)
    ids = np.array([candidate.job for candidate in opened.candidates], dtype=np.int64)
    is_unseen[_rows(waiting, ids)] = False
    # Of a whole shape out of view perhaps nobody was told yet why he waits.
    if opened.is_cut and not waiting.field(c.CAUSE)[is_unseen].all():
        return True
    if has_yielding(policy) and bool((waiting.field(c.CHECKPOINTS)[is_unseen] > 0).any()):
        return True
    lacking = [job.id for job, reason in table.refused if reason.code in PLAIN_CODES]
    kinds = kinds_of(waiting)
    is_closed = np.zeros(int(kinds.max(initial=0)) + 1, dtype=np.bool_)
    is_closed[kinds[_rows(waiting, np.array(lacking, dtype=np.int64))]] = True
    return not bool(is_closed[kinds[is_unseen]].all())


def _rows(waiting: Waiting, ids: c.Ints) -> c.Ints:
    """Where those of these jobs that wait stand among all who do, who come by id."""
    rows = np.searchsorted(waiting.ids, ids)
    is_there = rows < len(waiting)
    is_there[is_there] = waiting.ids[rows[is_there]] == ids[is_there]
    return rows[is_there]
