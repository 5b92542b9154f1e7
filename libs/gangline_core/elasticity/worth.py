"""Does a change of size win more time than it costs?"""

from gangline_core.elasticity.speed import Speed
from gangline_core.elasticity.view import Elastic
from gangline_core.spec import ResizeKind

RESTART_COST_S = 30
"""What starting a gang again costs when neither the job nor its own changes said otherwise (Pollux, section 5.1)."""


def cost_s(one: Elastic) -> int:
    """Seconds of work that one change costs this job."""
    elastic = one.job.spec.elastic
    if elastic.cost_s:
        return elastic.cost_s
    if one.job.resize_cost_ms:
        return one.job.resize_cost_ms // 1000
    return RESTART_COST_S if elastic.kind == ResizeKind.RESTART else 0


def left_s(one: Elastic, now: int) -> int:
    """Seconds the job still needs as it is: as it said, else by its estimate, else as long as it has run so far."""
    if one.progress is not None and one.progress.remaining_s >= 0:
        return one.progress.remaining_s
    age_s = max(0, now - one.job.started_ms) // 1000
    if one.job.spec.estimate_s > age_s:
        return one.job.spec.estimate_s - age_s
    return age_s


def pays_off(one: Elastic, speed: Speed, size: int, now: int) -> bool:
    """True when the time won until the end is more than the change costs."""
    cost = cost_s(one)
    if not cost:
        return True
    before, after = speed.at_milli(one.size), speed.at_milli(size)
    won_s = left_s(one, now) * (after - before) // max(1, after)
    return won_s > cost
