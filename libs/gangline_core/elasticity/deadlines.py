"""Deadlines: every job gets the least size that still meets its own, earliest first; the rest goes by marginal gain.

Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning", ASPLOS 2023: the least
satisfactory share, and allocation of the rest by marginal return. A job that cannot meet its deadline at any size keeps
the least size, so that it takes nothing from those that can.
"""

from gangline_core.elasticity.idle_fill import idle_fill
from gangline_core.elasticity.pollux import free_gpus
from gangline_core.elasticity.speed import speed_of
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import cost_s, left_s
from gangline_core.ids import JobId
from gangline_core.spec import GPU_MILLI


def deadlines(view: View) -> list[Target]:
    """Shrink those that are ahead of their deadline only as far as others need it; then fill what is idle."""
    bound = sorted((one for one in view.jobs if one.job.spec.deadline_ms), key=lambda one: (due(one), one.job.id))
    if not bound or not view.may_weigh:
        return idle_fill(view)
    shares = {one.job.id: satisfactory(one, view.now) for one in bound}
    free = free_gpus(view) * GPU_MILLI
    targets: dict[JobId, Target] = {}
    for one in bound:
        lacking = (shares[one.job.id] - one.size) * one.gpu_milli
        if lacking <= 0:
            continue
        for other in _givers(view, one, shares):
            if free >= lacking:
                break
            least = max(shares.get(other.job.id, other.sizes[0]), other.sizes[0])
            enough = other.size - -(-(lacking - free) // other.gpu_milli)
            size = max((size for size in other.sizes if least <= size <= enough), default=least)
            if other.job.id not in targets and size < other.size:
                targets[other.job.id] = Target(
                    job=other.job, role=other.role.name, size=size, why="deadline of another"
                )
                free += (other.size - size) * other.gpu_milli
        if free >= lacking and one.job.id not in targets:
            free -= lacking
            targets[one.job.id] = Target(job=one.job, role=one.role.name, size=shares[one.job.id], why="deadline")
    return [targets[job] for job in sorted(targets)] if targets else idle_fill(view)


def due(one: Elastic) -> int:
    """When the job must be over."""
    return one.job.spec.deadline_ms


def satisfactory(one: Elastic, now: int) -> int:
    """The least size at which the job is over in time; its least size when none will do."""
    speed, work_s = speed_of(one), left_s(one, now)
    present = max(1, speed.at_milli(max(1, one.size)))
    for size in one.sizes:
        pause_s = 0 if size == one.size else cost_s(one)
        needed_s = work_s * present // max(1, speed.at_milli(size)) + pause_s
        if now + needed_s * 1000 <= due(one):
            return size
    return one.sizes[0]


def _givers(view: View, one: Elastic, shares: dict[JobId, int]) -> list[Elastic]:
    """Jobs that could give something: those without a deadline first, then the latest."""
    others = (other for other in view.jobs if other.job.id != one.job.id)
    return sorted(others, key=lambda other: (other.job.id in shares, -due(other), -other.job.id))
