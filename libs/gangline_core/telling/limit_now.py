"""What keeps a job out now that a round found above a limit: others started after it was refused, and claims wait.

The gates saw a way for such a job, so they do not tell. Its limit may have become another one since then, or what it
lacks is room: what an owner did not lend is gone when the owner uses it himself.
"""

from collections.abc import Iterable

from gangline_core.job import Job
from gangline_core.limits.least_counted import least_counted
from gangline_core.limits.quota import Ledger, job_amounts, minimum_sizes
from gangline_core.limits.rungs import GPU_MEMORY
from gangline_core.making_room.claims import honour_claims
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import LIMIT_CODES, Reason
from gangline_core.room.cards import ALL_GPUS, is_open
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
        self._counted: dict[int, list[Reason]] = {}

    def reason(self, job: Job, recorded: Reason) -> Reason:
        """The limit or the lack of room that the job meets; the recorded reason where it would meet neither."""
        shape = self._state.shapes.get(job.id, -job.id)
        if shape not in self._known:
            self._known[shape] = self._look(job, recorded)
        return self._known[shape]

    def counted(self, job: Job, gates: Iterable[Reason]) -> list[Reason]:
        """The same reasons, those of limits with what the job takes of the pool's cards at least.

        The gates count a thousandth of a card for who asks by memory: that is enough to see that a limit is used up.
        """
        found = list(gates)
        if not any(is_open(job.spec, name) for name in (ALL_GPUS, GPU_MEMORY)):
            return found
        if all(reason.code not in LIMIT_CODES for reason in found):
            return found
        shape = self._state.shapes.get(job.id, -job.id)
        if shape not in self._counted:
            ledger = Ledger(self._state, self._now)
            amounts = least_counted(self._state, ledger, job, job_amounts(job.spec, minimum_sizes(job.spec)))
            self._counted[shape] = list(ledger.faults(job, amounts))
        return [*(reason for reason in found if reason.code not in LIMIT_CODES), *self._counted[shape]] or found

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
