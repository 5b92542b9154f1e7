"""Who is refused at a look: whoever asks for what others asked for in vain, where nobody makes room for anybody.

Of the many that wait most ask for the same few things, and differ by their time limits alone. Where nobody is evicted,
shrunk or joined for a job it starts in what is free or it does not start, and what is free only gets less in a round.
So as soon as the round's date is given, each further job needs but two looks: may it pass the date, and was what it
asks for sought in vain there?
"""

from gangline_core.batch import FLOW
from gangline_core.job import Job
from gangline_core.making_room.victims import may_shrink_somebody
from gangline_core.reasons import Reason
from gangline_core.reserving.reserve import Reserver
from gangline_core.room.capacity import Room
from gangline_core.spec import ServiceClass
from gangline_core.table import Table
from gangline_core.telling.refusals import Refuser


class Crowd:
    """The candidates of one round for whom room alone counts."""

    def __init__(self, table: Table, refuser: Refuser, reserver: Reserver) -> None:
        """Of this round; nobody was refused yet."""
        self._table, self._refuser, self._reserver = table, refuser, reserver
        self._is_plain = _is_plain(table)
        self._asks = table.state.asks
        self._in_vain: dict[tuple[int, bool], Reason] = {}
        """By what is asked, and whether the job may pass the date."""

    def refused(self, job: Job) -> Reason | None:
        """Why the job finds no room; None when it has to be looked at."""
        if not (self._is_plain and self._reserver.is_over) or job.spec.service_class == ServiceClass.OPPORTUNISTIC:
            return None
        if (known := self._refuser.known(job)) is not None:
            return known
        key = (self._asks[job.id], self._table.ends_before_reservations(job))
        reason = self._in_vain.get(key)
        if reason is None and (room := self._room(is_passing=key[1])) is not None:
            reason = self._refuser.no_room(job, room)
            if reason is not None:
                self._in_vain[key] = reason
        return reason

    def _room(self, *, is_passing: bool) -> Room | None:
        return self._table.room if is_passing else self._table.guarded


def _is_plain(table: Table) -> bool:
    """True when a job that finds no room has no other way to start, and none stands in front of another's level."""
    policy, pool = table.policy, table.pool.pool
    if policy.preemption or policy.sharing or policy.lease_s or policy.placement == FLOW or table.has_guarantees:
        return False
    if pool.cells or pool.pinned or table.state.kept.windows or any(rule.strict for rule in policy.levels.values()):
        return False
    return not (policy.shrink and may_shrink_somebody(table))
