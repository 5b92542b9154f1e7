"""Grow-shrink with introspection: try the next size when GPUs are idle, keep it only if the job got faster.

Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018: the progress a job
makes is measured before and after; what did not help is undone, and not tried again.
"""

from gangline_core.elasticity.room import more
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.holds import placed_amounts
from gangline_core.progress import Point


def grow_shrink(view: View) -> list[Target]:
    """Undo what did not help, then let each job try one step, jobs furthest below what they wanted first.

    A trial waits for news from outside, such as the report that shows what the last one was worth.
    """
    if not view.may_weigh:
        return []
    targets = [target for one in view.jobs if (target := undone(one)) is not None]
    back = {target.job.id for target in targets}
    for one in sorted(view.jobs, key=lambda one: ((one.size - one.role.count) * one.gpu_milli, one.job.id)):
        following = one.above(one.size)
        if one.job.id in back or following is None or not worth_a_try(one, following):
            continue
        tasks = more(view.table, view.table.room, one.job, one.role, count=following - one.size)
        if tasks is not None:
            view.table.grow(one.job, tasks, placed_amounts(view.state, tasks))
            targets.append(Target(job=one.job, role=one.role.name, size=following, why="trial"))
    return sorted(targets, key=lambda target: target.job.id)


def undone(one: Elastic) -> Target | None:
    """The size before the last change, when the job was at least as fast there."""
    resize = one.job.resize
    before = resize.before.get(one.role.name, 0) if resize is not None else 0
    if not before or before >= one.size or before not in one.sizes:
        return None
    now, then = rate(one, one.size), rate(one, before)
    if now is None or then is None or now > then:
        return None
    return Target(job=one.job, role=one.role.name, size=before, why="no faster than before")


def worth_a_try(one: Elastic, size: int) -> bool:
    """True when the size was never seen, or is known to be faster; the present one must have been measured first."""
    now, then = rate(one, one.size), rate(one, size)
    if one.progress is None or not one.progress.points:
        return True
    return now is not None and (then is None or then > now)


def rate(one: Elastic, size: int) -> float | None:
    """Samples per second at a size, by the best report from it; None when there was none."""
    points = one.progress.points if one.progress is not None else ()
    return max((_rate(point) for point in points if point.members == size), default=None)


def _rate(point: Point) -> float:
    return point.members * point.batch * (point.gathered + 1) / point.step_us
