"""Deadlines: every job gets the least size that still meets its own, earliest first; the rest goes by marginal gain.

Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning", ASPLOS 2023: the least
satisfactory share, and allocation of the rest by marginal return. Who has no deadline gives first, then who has most
time, and nobody with a deadline gives what its own needs. A job that cannot meet its deadline at any size asks for no
more than its least, so that it takes nothing from those that can.
"""

from collections.abc import Iterator

from gangline_core.elasticity.speed import speed_of
from gangline_core.elasticity.taking import Given, Taking
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import cost_s, left_s
from gangline_core.ids import JobId


def deadlines(view: View) -> list[Target]:
    """Shrink those that are ahead of their deadline only as far as others need it; then fill what is idle."""
    bound = sorted((one for one in view.jobs if one.job.spec.deadline_ms), key=lambda one: (due(one), one.job.id))
    taking = Taking(view)
    if view.may_weigh:
        shares = {one.job.id: satisfactory(one, view.now) for one in bound}
        for one in bound:
            share = shares[one.job.id]
            if share > one.size:
                steps = _steps(taking, one, shares)
                taking.take(one, share, steps, why="deadline", others="deadline of another")
    return taking.with_idle()


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


def _steps(taking: Taking, one: Elastic, shares: dict[JobId, int]) -> Iterator[Given]:
    """Steps down of jobs that could give something: those without a deadline first, then the latest."""
    others = (other for other in taking.view.jobs if other.job.id != one.job.id and not taking.grows(other))
    for other in sorted(others, key=lambda other: (other.job.id in shares, -due(other), -other.job.id)):
        yield from taking.steps(other, least=max(shares.get(other.job.id, 0), other.sizes[0]))
