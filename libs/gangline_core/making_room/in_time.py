"""Who is gone before a job may start no more, by its deadline or for a window: others would go for it in vain.

A victim may take all of its grace to stop. If the job may then not start any more, or not where it is to go, both have
lost.
"""

from gangline_core.door.terms import last_start_ms
from gangline_core.ids import NodeId
from gangline_core.job import Job
from gangline_core.making_room.losses import PAUSE, SHRINK, WAIT, Loss
from gangline_core.making_room.trial import Plan
from gangline_core.reserving.closures import Closures
from gangline_core.table import Table


def in_time(table: Table, job: Job, losses: list[Loss]) -> list[Loss]:
    """Those of these losses that are over by then, in order; what goes anyway is among them."""
    if not (job.spec.deadline_ms or table.state.kept.windows):
        return losses
    until_ms, closed = starts_until_ms(job), dict[int, frozenset[NodeId]]()
    found: list[Loss] = []
    for loss in losses:
        over_ms = table.now + _takes_ms(loss)
        if over_ms not in closed:
            closed[over_ms] = frozenset(Closures(table.state, over_ms).nodes(job.spec))
        is_open = closed[over_ms].isdisjoint(task.node for task in loss.tasks)
        if loss.kind == WAIT or (is_open and (not until_ms or over_ms <= until_ms)):
            found.append(loss)
    return found


def closed_then(table: Table, job: Job, plan: Plan) -> frozenset[NodeId]:
    """Nodes of a job's seats on which it may start no more once the last that goes for it is gone; none where it may.

    Not only where somebody goes: who goes elsewhere gives back what a limit counts.
    """
    if not table.state.kept.windows or all(loss.kind == WAIT for loss in plan.losses):
        return frozenset()
    closed = Closures(table.state, table.now + max(map(_takes_ms, plan.losses))).nodes(job.spec)
    return frozenset(place.node for place in plan.found.seats.tasks).intersection(closed)


def starts_until_ms(job: Job) -> int:
    """Until when a waiting job may start by its deadline; 0 where that has no end."""
    return last_start_ms(job.spec, had=job.attained) if job.spec.deadline_ms else 0


def _takes_ms(loss: Loss) -> int:
    """The longest that who goes may take for it."""
    if loss.kind == PAUSE:
        return 1000 * max(one.spec.pausing.notice_s if one.spec.pausing else 0 for one in (loss.job, *loss.guests))
    notice_s = loss.job.spec.elastic.notice_s if loss.kind == SHRINK else 0
    return 1000 * max(notice_s + one.spec.grace_s for one in (loss.job, *loss.guests))
