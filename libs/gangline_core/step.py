"""What one message changed, for those who act on it."""

from msgspec import Struct

from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import JobState


class JobMoved(Struct, frozen=True, gc=False):
    """A job went from one state to another; `before` is None for a new job."""

    job: JobId
    before: JobState | None
    after: JobState


class Step(Struct):
    """Changes made by one message, in order."""

    seq: int
    at: int
    seen: int = 0
    """What the writer had folded when it decided; what came between was not taken into account."""
    moves: list[JobMoved] = []
    tasks: list[TaskId] = []
    """Tasks that were placed, changed, told to stop, or are gone."""
    nodes: list[NodeId] = []
    """Nodes that joined or changed."""
    freed: bool = False
    """Room came back."""
    settings: bool = False
    """Groups, users, pools, policies or tokens changed."""
    rounds: list[str] = []
    """Pools in which a round was opened."""
    decided: list[str] = []
    """Pools in which a round was decided."""
    arrays: list[JobId] = []
    """Arrays of which the last element ended."""
    voided: list[JobId] = []
    """Jobs whose placement did not hold any more."""
    sized: list[JobId] = []
    """Jobs whose change of size began, moved on or ended; their members want to know."""
    renewed: bool = False
    """A period of a budget was over, so that it has all of its hours again."""
    undated: bool = False
    """Nothing is kept any more for a job below limits that other pools share."""
    measured: bool = False
    """How busy a job is came out otherwise than was known, so that others may share its GPUs, or may not any more."""
    touched: bool = False
    """Something else changed that a service may want to look at."""
    alarms: list[str] = []
    """Events that did not belong; production shows them, tests raise."""
