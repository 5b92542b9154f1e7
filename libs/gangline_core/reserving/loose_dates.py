"""Reserved room for opportunistic jobs, against other opportunistic jobs alone.

Firm work never waits for opportunistic work. Among themselves opportunistic jobs have the promise of all others: the
first that finds no room has a date, beside what is reserved for firm jobs, and those behind it pass only if they end
before that date or leave its room alone.
"""

from msgspec import Struct

from gangline_core.facts import Reservation
from gangline_core.job import Job
from gangline_core.reserving.reserve import RESERVATIONS_MAX, Reserver, usable_nodes
from gangline_core.room.capacity import Flags, Room
from gangline_core.spec import ServiceClass
from gangline_core.table import Table


class Kept(Struct):
    """One reservation, and what it leaves of the room at its date."""

    reservation: Reservation
    wanted: Flags
    later: Room
    seen: int
    """How many tasks that the round placed are counted in `later`."""


class LooseDates:
    """The reservations of opportunistic jobs in one round."""

    def __init__(self, table: Table) -> None:
        """No reservation yet."""
        self._table = table
        self._reserver = Reserver(table)
        self._kept: list[Kept] = []

    def consider(self, job: Job) -> Reservation | None:
        """Reserve room for a refused opportunistic job, unless it competes with one that has a reservation."""
        table = self._table
        if table.policy.backfill_depth == 0 or len(self._kept) >= RESERVATIONS_MAX:
            return None
        wanted = usable_nodes(table.room, table.seating.least(job).gang)
        if not wanted.any() or any(bool((kept.wanted & wanted).any()) for kept in self._kept):
            return None
        planned = self._reserver.planned(job, beside=table.reservations)
        if planned is None:
            return None
        reservation, later = planned
        for place in reservation.tasks:
            later.take(place)
        self._kept.append(Kept(reservation, wanted, later, len(table.placed)))
        table.loose.append(reservation)
        return reservation

    def room_for(self, job: Job, base: Room) -> Room:
        """The same room, or for an opportunistic job that would stay beyond a date, what is left beside that."""
        table = self._table
        if not self._kept or job.spec.service_class != ServiceClass.OPPORTUNISTIC:
            return base
        length_ms = table.run_ms(job) if table.policy.backfill else None
        ends_ms = None if length_ms is None else table.now + length_ms
        binding = [one for one in self._kept if ends_ms is None or ends_ms > one.reservation.start_ms]
        if not binding:
            return base
        own = base.copy()
        for one in binding:
            for place, end_ms in table.placed[one.seen :]:
                if end_ms > one.reservation.start_ms:
                    one.later.take(place)
            one.seen = len(table.placed)
            rows = {own.layout.row[place.node] for place in one.reservation.tasks}
            own.lower_to(one.later.rows(sorted(rows)))
            if not table.policy.backfill:
                own.close(one.wanted)
        return own
