"""What a round would do with a job that came now, at its turn behind those before it: on scratch paper."""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cycle import Layout, lay_out, open_round
from gangline_core.facts import RoundOpened
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.making_room.trial import Plan
from gangline_core.reasons import Reason
from gangline_core.refusing.refusals import kept_by_date, lack_of
from gangline_core.reserving.passing import may_pass
from gangline_core.seating import Found, find_seats
from gangline_core.state import State

LAID_OUT_MAX = 16
"""Jobs ahead of another for which it is thought through what a round would do, beside those that have dates."""


class Turn(Struct, frozen=True):
    """One of the three: where it starts, whose going makes room for it, or what it waits for."""

    found: Found | None = None
    plan: Plan | None = None
    reason: Reason | None = None
    """Why it does not start at once, also where others make way."""


def turn_of(layout: Layout, job: Job) -> Turn:
    """Behind those for whom the round is laid out already."""
    table = layout.table
    if (reason := layout.heads.in_the_way(job)) is not None:
        return Turn(reason=reason)
    base = table.room if table.guarded is None or may_pass(table, job) else table.guarded
    room = layout.loose.room_for(job, base)
    found = find_seats(table.seating, job, room)
    if isinstance(found, Found):
        return Turn(found=found)
    reason = found or kept_by_date(table, job, room) or lack_of(table, job)
    return Turn(plan=layout.preemptor.plan(job), reason=reason)


def laid_out(state: State, job: Job, ahead: Collection[JobId], now: int) -> Layout:
    """What a round would do now with the waiting jobs `ahead` of the job: all of it binds the job.

    Of very many the first, and those that have a date; of the others it is taken that they wait on.
    """
    known, pool = state.kept.pools[job.spec.pool], job.spec.pool
    opened = RoundOpened(pool=pool, round=known.rounds + 1, candidates=())
    if known.open_round is not None:
        opened = known.open_round.opened
    elif ahead:
        opened = open_round(state, pool, now, somebody_comes=True) or opened
    dated = {kept.job for kept in known.reservations} | {date.job for date in known.limit_dates}
    before = [candidate for candidate in opened.candidates if candidate.job in ahead]
    candidates = tuple(one for k, one in enumerate(before) if k < LAID_OUT_MAX or one.job in dated)
    return lay_out(state, pool, now, replace(opened, candidates=candidates))
