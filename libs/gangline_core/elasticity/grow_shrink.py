"""Grow-shrink with introspection: try the next size when GPUs are idle, keep it only if the job got faster.

Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018: the progress a job
makes is measured before and after; what did not help, or what the job did not report on, is undone, and not tried
again. Gandiva's jobs always report; of one that never does nothing can be measured, and it grows as under `idle_fill`.

Step times are noisy, so the mean of n of them is off by NOISE / sqrt(n), and a change is faster or slower only once the
difference is SURE times what that explains. Until then it goes on as it is, and is measured further; after ENOUGH steps
at both sizes what did not get faster at all is undone. Nothing is tried from a size that was hardly measured.
"""

from enum import Enum
from math import sqrt

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
ENOUGH = 128
"""After so many steps at a size its speed is known."""
LONG_S = 1800
"""Long steps are measured for so long before something is tried, and for PATIENCE steps at least."""
STEPS_MOST = 256
"""Step times of which what is reported is the middle."""
NOISE, SURE = 0.2, 2.5


class Verdict(Enum):
    """What a trial did to the job's speed."""

    FASTER = "faster"
    SLOWER = "slower"
    OPEN = "open"
    """Noise could explain it so far."""


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
        if one.job.id in back or following is None or not worth_a_try(one, following, view):
            continue
        tasks = more(view.table, view.table.room, one.job, one.role, count=following - one.size)
        if tasks is not None:
            view.table.grow(one.job, tasks, placed_amounts(view.state, tasks))
            targets.append(Target(job=one.job, role=one.role.name, size=following, why=TRIAL))
    return targets


def undone(one: Elastic, view: View) -> Target | None:
    """The size before the last change, when the job was at least as fast there, or told nothing of a trial since."""
    resize = one.job.resize
    before = _before(one)
    if resize is None or not before or before >= one.size or before not in one.sizes:
        return None
    why, since_ms = "", view.now - resize.stage_ms
    now, then = step_ms(one, one.size), step_ms(one, before)
    if now is None and resize.why == TRIAL and since_ms >= _patience_ms(view, one):
        why = NOT_MEASURED
    elif now is not None and then is not None and since_ms >= _interval_ms(view):
        seen = min(since_ms / now, STEPS_MOST)
        why = WORSE if compared(one, before, steps=seen, before=_measured(view, then)) == Verdict.SLOWER else ""
    return Target(job=one.job, role=one.role.name, size=before, why=why) if why else None


def compared(one: Elastic, size: int, *, steps: float, before: float) -> Verdict:
    """Whether the job is faster now, after so many `steps`, than it was at a size where as many as `before` were made.

    Both sizes were reported on.
    """
    now, then = rate(one, one.size), rate(one, size)
    if now is None or then is None:
        return Verdict.OPEN
    unsure = _unsure(steps, before)
    if now > then * (1 + unsure):
        return Verdict.FASTER
    if now <= then and (min(steps, before) >= ENOUGH or now < then * (1 - unsure)):
        return Verdict.SLOWER
    return Verdict.FASTER if min(steps, before) >= ENOUGH else Verdict.OPEN


def worth_a_try(one: Elastic, size: int, view: View) -> bool:
    """True when the size was never seen, or is known to be faster, and the present one has been measured and helped."""
    resize, step = one.job.resize, step_ms(one, one.size)
    if resize is not None and resize.why == NOT_MEASURED and resize.before.get(one.role.name) == size:
        return False
    if step is None:
        return False
    since_ms = view.now - (resize.stage_ms if resize is not None else one.job.started_ms)
    steps, needed = min(since_ms / step, STEPS_MOST), _measured(view, step)
    if steps < needed:
        return False
    if (now := rate(one, one.size)) is not None and (there := rate(one, size)) is not None:
        # It was tried, and undone: only what is clearly faster is tried again.
        return there > now * (1 + _unsure(steps, needed))
    before, then = _before(one), step_ms(one, _before(one))
    if not 0 < before < one.size or then is None:
        return True
    return compared(one, before, steps=steps, before=_measured(view, then)) == Verdict.FASTER


def _unsure(steps: float, before: float) -> float:
    """The part by which two speeds may differ by noise alone, measured over so many steps each."""
    return SURE * NOISE * sqrt(1 / max(1.0, steps) + 1 / max(1.0, before))


def _before(one: Elastic) -> int:
    """The size before the last change; 0 when there was none."""
    return one.job.resize.before.get(one.role.name, 0) if one.job.resize is not None else 0


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


def step_ms(one: Elastic, size: int) -> float | None:
    """How long a step takes at a size, the longest that was reported; None when none was."""
    points = one.progress.points if one.progress is not None else ()
    return max((max(1, point.step_us) * 1000 / MILLION for point in points if point.members == size), default=None)


def _measured(view: View, step_ms: float) -> float:
    """Steps that are made at a size before something else is tried, when each takes so long."""
    interval, long = _interval_ms(view) / step_ms, max(LONG_S * 1000 / step_ms, PATIENCE)
    return min(STEPS_MOST, max(interval, min(ENOUGH, long)))


def _patience_ms(view: View, one: Elastic) -> int:
    points = one.progress.points if one.progress is not None else ()
    step_ms = max((point.step_us for point in points), default=0) * 1000 // MILLION
    return PATIENCE * max(_interval_ms(view), step_ms)
