"""What a job says of its own progress: how far it is, how fast, and how well larger batches would serve it."""

from msgspec import Struct

MILLION = 1_000_000
POINTS_MAX = 24
"""Step times remembered per job, one per shape; the oldest shape makes room."""

BATCH_MOST = 1 << 30
"""Samples per member and step beyond which a number is none; no sum of such numbers leaves 64 bits."""
GATHERED_MOST = MEMBERS_MOST = 1 << 20


class Point(Struct, frozen=True, array_like=True, gc=False):
    """The step time seen at one shape: so many nodes and members, so many samples each, so many steps gathered."""

    nodes: int
    members: int
    batch: int
    gathered: int
    step_us: int

    @property
    def can_be(self) -> bool:
        """True for numbers that a training can have; nothing is concluded from others."""
        return (
            1 <= self.nodes <= self.members <= MEMBERS_MOST
            and 1 <= self.batch <= BATCH_MOST
            and 0 <= self.gathered <= GATHERED_MOST
            and self.step_us >= 1
        )


class Progress(Struct, frozen=True, omit_defaults=True, gc=False):
    """One report, or all of a job's reports taken together; a value that was not said is -1."""

    permille: int = -1
    """How far the job is, 0 to 1000."""
    remaining_s: int = -1
    step: int = -1
    samples: int = -1
    """Samples trained on so far."""
    points: tuple[Point, ...] = ()
    grad_sqr: int = -1
    """Squared norm of the mean gradient, in millionths."""
    grad_var: int = -1
    """Trace of the gradient's covariance at the initial batch, in millionths."""
    checkpoint_step: int = -1
    """Step of the last saved checkpoint."""
    told_ms: int = -1
    """When the last of these reports came into the log; of a report itself -1."""


def merged(known: Progress | None, new: Progress) -> Progress:
    """What is known after another report: later values win, step times are kept per shape."""
    if known is None:
        return new
    points = {_shape(point): point for point in known.points}
    for point in new.points:
        points.pop(_shape(point), None)
        points[_shape(point)] = point
    values = {
        name: value if (value := getattr(new, name)) != -1 else getattr(known, name)
        for name in Progress.__struct_fields__
        if name != "points"
    }
    return Progress(points=tuple(points.values())[-POINTS_MAX:], **values)


def _shape(point: Point) -> tuple[int, int, int, int]:
    return point.nodes, point.members, point.batch, point.gathered
