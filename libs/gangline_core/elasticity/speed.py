"""How much faster a job is with more members, in thousandths of one member's speed."""

from msgspec import Struct

from gangline_core.elasticity.fit import fitted
from gangline_core.elasticity.goodput import Perf, throughput
from gangline_core.elasticity.view import Elastic, elastic
from gangline_core.job import Job
from gangline_core.spec import Role
from gangline_core.state import State

LINEAR_MILLI = 1000


class Speed(Struct):
    """Speed by size: by the model of the job's own reports, else in step with the size."""

    perf: Perf | None = None
    batch: int = 1
    per_node: int = 1
    """Members per node, as they stand now."""
    known: dict[int, int] = {}

    def at_milli(self, size: int) -> int:
        """The speed at a size."""
        if self.perf is None or size < 1:
            return size * LINEAR_MILLI
        if size not in self.known:
            one = throughput(self.perf, nodes=1, members=1, batch=self.batch, gathered=0)
            nodes = -(-size // self.per_node)
            many = throughput(self.perf, nodes=nodes, members=size, batch=self.batch, gathered=0)
            self.known[size] = round(float(LINEAR_MILLI * many / one))
        return self.known[size]

    def gain_milli(self, size: int, following: int) -> int:
        """What each member more brings on the way to the next size."""
        return (self.at_milli(following) - self.at_milli(size)) // max(1, following - size)


def speed_of(one: Elastic) -> Speed:
    """The speed of a job by what it reported; step times of at least two sizes are needed to judge others."""
    points = one.progress.points if one.progress is not None else ()
    if len({point.members for point in points}) < 2:
        return Speed()
    nodes = max(1, max(point.nodes for point in points))
    members = max(point.members for point in points)
    return Speed(perf=fitted(points), batch=points[-1].batch, per_node=max(1, -(-members // nodes)))


def part_lost_milli(state: State, job: Job, role: Role) -> int:
    """Thousandths of its speed that a job loses by its next step down; 1000 where its reports tell of no less.

    So who uses its members badly gives first, and nobody gives because it told how fast it is.
    """
    if job.id not in state.kept.progress:
        return LINEAR_MILLI
    one = elastic(state, job, role)
    below, speed = one.below(one.size), speed_of(one)
    if speed.perf is None or not below:
        return LINEAR_MILLI
    present = max(1, speed.at_milli(one.size))
    lost_milli = LINEAR_MILLI * (present - speed.at_milli(below)) // present
    return lost_milli if lost_milli * one.size < LINEAR_MILLI * (one.size - below) else LINEAR_MILLI
