"""What a round would do with a job that came now, at its turn behind those before it: on scratch paper."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.job import Job
from gangline_core.limits.dates import LimitDates
from gangline_core.making_room.claims import honour_claims
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.trial import Plan
from gangline_core.placement.why_not import ROOM_CODES, why_not
from gangline_core.reasons import Reason
from gangline_core.reserving.closures import window_reason
from gangline_core.reserving.loose_dates import LooseDates
from gangline_core.reserving.passing import may_pass
from gangline_core.reserving.reserve import Reserver, reserved_reason
from gangline_core.room.capacity import Room
from gangline_core.scoring.levels import Heads
from gangline_core.seating import Found, find_seats
from gangline_core.spec import ServiceClass
from gangline_core.table import Table


class Turn(Struct, frozen=True):
    """One of the three: where it starts, whose going makes room for it, or what it waits for."""

    found: Found | None = None
    plan: Plan | None = None
    reason: Reason | None = None
    """Why it does not start at once, also where others make way."""


def turn_of(table: Table, job: Job, ahead: Sequence[Job]) -> Turn:
    """`ahead` are the waiting jobs that go before it; what the last round kept for them is kept."""
    honour_claims(table)
    before = {other.id for other in ahead}
    LimitDates(table, remembered=[date.job for date in table.pool.limit_dates if date.job in before])
    base, loose = _beside_reserved(table, job, ahead)
    if (reason := _head_in_the_way(table, job, ahead)) is not None:
        return Turn(reason=reason)
    room = loose.room_for(job, base)
    found = find_seats(table.seating, job, room)
    if isinstance(found, Found):
        return Turn(found=found)
    reason = found or _window(table, job, room) or _lack(table, job, room)
    return Turn(plan=Preemptor(table).plan(job), reason=reason)


def _beside_reserved(table: Table, job: Job, ahead: Sequence[Job]) -> tuple[Room, LooseDates]:
    """The room that is left to it beside the dates of those before it."""
    dated = {reservation.job for reservation in table.pool.reservations}
    reserver, loose = Reserver(table), LooseDates(table)
    for other in (other for other in ahead if other.id in dated):
        (loose if other.spec.service_class == ServiceClass.OPPORTUNISTIC else reserver).consider(other)
    return (table.room if table.guarded is None or may_pass(table, job) else table.guarded), loose


def _head_in_the_way(table: Table, job: Job, ahead: Sequence[Job]) -> Reason | None:
    """Who stands in front of its level and found no room, where that is strict."""
    heads = Heads(table)
    for other in ahead if any(rule.strict for rule in table.policy.levels.values()) else ():
        if other.reason is not None and other.reason.code in ROOM_CODES:
            heads.refused(other)
    return heads.in_the_way(job)


def _lack(table: Table, job: Job, room: Room) -> Reason:
    gang = table.seating.least(job).gang
    if room is not table.room and table.seating.placer(table.room, gang) is not None:
        return reserved_reason(table)
    return why_not(table.seating.view(table.room, gang), gang)


def _window(table: Table, job: Job, room: Room) -> Reason | None:
    """The dated capacity that is in the way, if the job would fit without it."""
    if not table.seating.closures.nodes(job.spec):
        return None
    open_gang = replace(table.seating.least(job).gang, excluded=job.spec.exclude_nodes)
    fits = table.seating.placer(room, open_gang) is not None
    return window_reason(table.state, job.spec, table.now) if fits else None
