"""How often something on its machines ended the supervisors of a job in a row, and when that is too often."""

from msgspec import Struct

from gangline_core.ids import NodeId

KILLED_MAX = 5
"""So often in a row it begins anew; then it is held."""
RAN_WELL_MS = 3_600_000
"""A member that ran for so long, or a job that did so since the last time, begins a new row."""


class Killed(Struct, frozen=True, array_like=True, gc=False):
    """Supervisors of a job that were ended in a row, by nobody of ours, on machines that ran on with their agents."""

    nodes: tuple[NodeId, ...]
    """Where, each time, the latest last."""
    at: int
    """When that was, in ms of the log."""
