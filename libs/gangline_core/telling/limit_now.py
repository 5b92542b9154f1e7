"""What keeps a job out now that a round found above a limit: others started after it was refused, and claims wait.

The gates saw a way for such a job, so they do not tell. Its limit may have become another one since then, or what it
lacks is room: what an owner did not lend is gone when the owner uses it himself.
"""

from gangline_core.job import Job
from gangline_core.making_room.claims import honour_claims
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import Reason
from gangline_core.seating import find_seats
from gangline_core.state import State
from gangline_core.table import Table


class LimitsNow:
    """The same for all jobs of a pool at one moment; equal ones are looked at once."""

    def __init__(self, state: State, pool: str, now: int) -> None:
        """Nobody asked yet."""
        self._state, self._pool, self._now = state, pool, now
        self._table: Table | None = None
        self._known: dict[int, Reason] = {}

    def reason(self, job: Job, recorded: Reason) -> Reason:
        """The limit or the lack of room that the job meets; the recorded reason where it would meet neither."""
        shape = self._state.shapes.get(job.id, -job.id)
        if shape not in self._known:
            self._known[shape] = self._look(job, recorded)
        return self._known[shape]

    def _look(self, job: Job, recorded: Reason) -> Reason:
        if self._table is None:
            self._table = Table(self._state, self._pool, self._now)
            honour_claims(self._table)
        table = self._table
        found = find_seats(table.seating, job, table.room)
        if found is None:
            gang = table.seating.least(job).gang
            return why_not(table.seating.view(table.room, gang), gang)
        return found if isinstance(found, Reason) else recorded
