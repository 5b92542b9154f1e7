"""A cheap look at the sums where service alone says who may go: most who wait then see that all of it is too little.

Whoever waits asks only after those that have sunk below it. Where many wait these are few, and mostly less than is
asked for: then nobody has to think through whom to evict.
"""

from collections.abc import Iterable

from gangline_core.job import Job
from gangline_core.making_room.losses import Loss, effective_priority
from gangline_core.making_room.service_order import milli_below, orders_by_service
from gangline_core.spec import GPU_MILLI, ServiceClass
from gangline_core.table import Table


def goes_by_service_alone(table: Table, job: Job) -> bool:
    """True when nobody but those that have sunk below this job may be evicted for it, by no other rule."""
    if not orders_by_service(table.policy) or table.policy.time_slice_s or table.lowered or table.has_guarantees:
        return False
    pool, sorts = table.pool.pool, table.state.live_sorts.get(table.pool.pool.name, {})
    mine = effective_priority(pool, job.spec)
    return not any(
        sort.service_class == ServiceClass.OPPORTUNISTIC or pool.levels.get(sort.level, 0) + sort.priority < mine
        for sort in sorts
    )


def is_short(table: Table, job: Job, others: Iterable[Loss]) -> bool:
    """True when what is free, these losses and all who may be evicted are fewer GPUs than the job asks for."""
    if table.state.kept.packs or table.packings or not goes_by_service_alone(table, job):
        return False
    needs = table.seating.least(job).gang.needs
    wanted = sum(need.count * (need.gpus * GPU_MILLI or need.milli) for need in needs)
    freed = sum(share.milli for loss in others for task in loss.tasks for share in task.gpus)
    freed += milli_below(table, job)
    return wanted > freed and wanted > freed + int(table.room.milli.clip(0).sum())
