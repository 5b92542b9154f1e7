"""One round's share of the part of a pool on which jobs that starve go first (see `scoring.first_by_age`).

Many GPUs may come back at once. When those that go first have taken what is left of the part, the round ends before the
next of them, and another one follows at once, in which the ordering says who goes next. Where room is lent in leases,
old jobs beyond the part may start in the same round: the ordering lent it to them (see `pauses.leases`).
"""

from gangline_core.facts import Placement
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.scoring.ageing import is_starving
from gangline_core.scoring.first_by_age import Amounts, goes_first_on_a_part, is_part_left
from gangline_core.table import Table


class AgedPart:
    """What those that starve hold of the part, with what they took in this round."""

    def __init__(self, table: Table) -> None:
        """Whoever's victims are gone has his room already."""
        self._table = table
        self._used = table.state.live_index.first_by_age.used(table.pool.pool.name)
        self._is_new = False
        """Somebody took some of it in this round: only then may the next one order otherwise."""
        self.went: list[JobId] = []
        """Who did."""
        for placement in table.placements if goes_first_on_a_part(table.policy) else ():
            self._note(placement)

    def note(self, job: Job) -> None:
        """It was the job's turn, and it may be the last that was given room."""
        placements = self._table.placements
        if placements and placements[-1].job == job.id and goes_first_on_a_part(self._table.policy):
            self._note(placements[-1])

    def _note(self, placement: Placement) -> None:
        if _goes_first(self._table, placement) and (placement.job in self._table.state.kept.claims or self._is_left()):
            self._used = self._used.plus(Amounts.of(self._table.state.kept.jobs[placement.job].spec), 1)
            self._is_new = True
            self.went.append(placement.job)

    def is_over_for(self, job: Job) -> bool:
        """True when the job is in front for its age, and no part is left of what such jobs may have."""
        table = self._table
        if not self._is_new or not is_starving(table.state, job, table.policy, table.now):
            return False
        return not self._is_left()

    def _is_left(self) -> bool:
        return is_part_left(self._used, self._table.frozen.layout, self._table.policy)


def _goes_first(table: Table, placement: Placement) -> bool:
    """True when the job starts first for its age; one that starts beside dated ones is in nobody's way, old or not."""
    job = table.state.kept.jobs[placement.job]
    return not placement.backfilled and is_starving(table.state, job, table.policy, table.now)
