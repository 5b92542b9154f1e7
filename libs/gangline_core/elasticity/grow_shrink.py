"""Grow-shrink with introspection: try the next size when GPUs are idle, keep it only if the job got faster.

Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018: the progress a job
makes is measured before and after; what did not help, or what the job did not report on, is undone, and not tried
again. Gandiva's jobs always report; of one that never does nothing can be measured, and it grows as under `idle_fill`.
"""

from msgspec.structs import replace

from gangline_core.elasticity.idle_fill import idle_fill
from gangline_core.elasticity.room import more
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.room.holds import placed_amounts
from gangline_core.sizes.progress import MILLION, Point

TRIAL = "trial"
NOT_MEASURED = "nothing was reported of it"
WORSE = "no faster than before"
PATIENCE = 3
"""So many intervals, and so many of its own steps, a job has for a report."""
ENOUGH = 32
"""After so many steps the mean of what was reported no longer follows the noise of single ones."""


def grow_shrink(view: View) -> list[Target]:
    """Undo what did not help, then let each job try one step; those that never report fill what is left."""
    reporting = [one for one in view.jobs if reports(one)]
    targets = _introspected(view, reporting) if view.may_weigh else []
    silent = tuple(
        one for one in view.jobs if not reports(one) and view.now - one.job.started_ms >= PATIENCE * _interval_ms(view)
    )
    filled = idle_fill(replace(view, jobs=silent)) if silent else []
    return sorted((*targets, *filled), key=lambda target: target.job.id)


def _introspected(view: View, jobs: list[Elastic]) -> list[Target]:
    """Trials and their ends, jobs furthest below what they wanted first.

    A trial waits for news from outside, such as the report that shows what the last one was worth.
    """
    targets = [target for one in jobs if (target := undone(one, view)) is not None]
    back = {target.job.id for target in targets}
    for one in sorted(jobs, key=lambda one: ((one.size - one.role.count) * one.gpu_milli, one.job.id)):
        following = one.above(one.size)
        if one.job.id in back or following is None or not worth_a_try(one, following):
            continue
        tasks = more(view.table, view.table.room, one.job, one.role, count=following - one.size)
        if tasks is not None:
            view.table.grow(one.job, tasks, placed_amounts(view.state, tasks))
            targets.append(Target(job=one.job, role=one.role.name, size=following, why=TRIAL))
    return targets


def undone(one: Elastic, view: View) -> Target | None:
    """The size before the last change, when the job was at least as fast there, or told nothing of a trial since."""
    resize = one.job.resize
    before = resize.before.get(one.role.name, 0) if resize is not None else 0
    if resize is None or not before or before >= one.size or before not in one.sizes:
        return None
    now, then = rate(one, one.size), rate(one, before)
    why = ""
    if now is None and resize.why == TRIAL and view.now - resize.stage_ms >= _patience_ms(view, one):
        why = NOT_MEASURED
    elif now is not None and then is not None and now <= then and view.now - resize.stage_ms >= _judged_ms(view, one):
        why = WORSE
    return Target(job=one.job, role=one.role.name, size=before, why=why) if why else None


def worth_a_try(one: Elastic, size: int) -> bool:
    """True when the size was never seen, or is known to be faster; the present one must have been measured first."""
    resize = one.job.resize
    if resize is not None and resize.why == NOT_MEASURED and resize.before.get(one.role.name) == size:
        return False
    now, then = rate(one, one.size), rate(one, size)
    return now is not None and (then is None or then > now)


def reports(one: Elastic) -> bool:
    """True when the job ever told step times."""
    return one.progress is not None and bool(one.progress.points)


def rate(one: Elastic, size: int) -> float | None:
    """Samples per second at a size, by the best report from it; None when there was none."""
    points = one.progress.points if one.progress is not None else ()
    return max((_rate(point) for point in points if point.members == size), default=None)


def _rate(point: Point) -> float:
    return point.members * point.batch * (point.gathered + 1) / point.step_us


def _interval_ms(view: View) -> int:
    return view.state.kept.pools[view.pool].policy.elastic_interval_s * 1000


def _judged_ms(view: View, one: Elastic) -> int:
    """How long a trial goes on before its step times are believed: ENOUGH steps, at least an interval."""
    steps = [point.step_us for point in one.progress.points if point.members == one.size] if one.progress else []
    enough_ms = ENOUGH * max(steps, default=0) * 1000 // MILLION
    return max(_interval_ms(view), min(enough_ms, _patience_ms(view, one)))


def _patience_ms(view: View, one: Elastic) -> int:
    points = one.progress.points if one.progress is not None else ()
    step_ms = max((point.step_us for point in points), default=0) * 1000 // MILLION
    return PATIENCE * max(_interval_ms(view), step_ms)
