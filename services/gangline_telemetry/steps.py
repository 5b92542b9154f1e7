"""What a step takes a job: the middle of what its members said lately, so that the noise of single steps tells nothing.

Kept by shape (nodes, members, batch, steps gathered). Where others work beside the job on its GPUs the question is how
it fares now, and only what was said since the last time counts.
"""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.sizes.progress import POINTS_MAX, Point

SAID_MAX = 256
"""Step times of one shape that are remembered; the members of a gang say them in turn."""

Shape = tuple[int, int, int, int]


class Said(Struct):
    """Step times of one shape, in microseconds."""

    times_us: deque[int]
    new: int = 0
    """So many of them were not told yet."""


class Steps:
    """What one attempt of a job said of its steps."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._said: dict[Shape, Said] = {}

    def hear(self, points: Sequence[Point]) -> None:
        """Take in what a member said."""
        for point in points:
            shape = shape_of(point)
            said = self._said.pop(shape, None) or Said(times_us=deque(maxlen=SAID_MAX))
            self._said[shape] = said
            said.times_us.append(point.step_us)
            said.new = min(said.new + 1, SAID_MAX)
        while len(self._said) > POINTS_MAX:
            del self._said[next(iter(self._said))]

    def tell(self, points: Sequence[Point], *, only_new: bool) -> tuple[Point, ...]:
        """These points with the middle of what was said of their shapes: of all of it, or of what is new."""
        told = []
        for point in points:
            said = self._said.get(shape_of(point))
            if said is not None:
                times = list(said.times_us)
                point = replace(point, step_us=middle(times[-said.new :] if only_new and said.new else times))
                said.new = 0
            told.append(point)
        return tuple(told)


def shape_of(point: Point) -> Shape:
    """What the step time is a step time of."""
    return point.nodes, point.members, point.batch, point.gathered


def middle(values: Sequence[int]) -> int:
    """The mean of the middle half, which outliers do not move."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    inner = ordered[cut : len(ordered) - cut]
    return sum(inner) // len(inner)
