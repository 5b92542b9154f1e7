"""Whether what a job says of itself is news that may change a size, or more of the same. Pure.

Jobs report all the time. If each report were a cause to change sizes (`causes`), noise alone would have them swing for
ever, and a gang that did not find together would be grown again as soon as it reports. So what was known when a report
last was a cause is kept, and another one is a cause only if it says what that did not: a step time at a shape never
seen, one that is another by FACTOR, gradients whose noise is another by FACTOR, an end that is off by LATE_PERCENT.
"""

from msgspec import Struct

from gangline_core.sizes.progress import Point, Progress

FACTOR_PERCENT = 150
"""A value is another one when it is so many percent of what it was, or that is so many percent of it."""
LATE_PERCENT, LATE_S = 25, 60
"""The end of a job is another one when it moved by so much of the time that was left, and by so many seconds."""


class Known(Struct, frozen=True, array_like=True):
    """What a job had said when that last was a cause, and when it was."""

    said: Progress
    at: int


def is_news(known: Known | None, said: Progress, at: int) -> bool:
    """True when this, all that the job has said by now, tells what it had not when it last was a cause."""
    if known is None:
        return bool(said.points) or said.remaining_s >= 0 or said.grad_sqr >= 0
    before = {_shape(point): point.step_us for point in known.said.points}
    for point in said.points:
        if _shape(point) not in before or _is_other(before[_shape(point)], point.step_us):
            return True
    return _noise_is_other(known.said, said) or _end_is_other(known, said, at)


def _shape(point: Point) -> tuple[int, int, int, int]:
    return point.nodes, point.members, point.batch, point.gathered


def _is_other(before: int, now: int) -> bool:
    return 100 * max(before, now) > FACTOR_PERCENT * min(before, now)


def _noise_is_other(before: Progress, now: Progress) -> bool:
    """By the noise scale, variance over square, compared without a division."""
    if now.grad_sqr < 0 or now.grad_var < 0:
        return False
    if before.grad_sqr < 0 or before.grad_var < 0:
        return True
    return _is_other(before.grad_var * now.grad_sqr, now.grad_var * before.grad_sqr)


def _end_is_other(known: Known, now: Progress, at: int) -> bool:
    if now.remaining_s < 0:
        return False
    if known.said.remaining_s < 0:
        return True
    expected_s = max(0, known.said.remaining_s - max(0, at - known.at) // 1000)
    off_s = abs(now.remaining_s - expected_s)
    return off_s > LATE_S and 100 * off_s > LATE_PERCENT * max(expected_s, now.remaining_s)
