"""Facts of the door about machines: whether they take work, and which pool they serve."""

from gangline_core.facts.form import FactBase
from gangline_core.ids import NodeId


class DrainSet(FactBase, frozen=True, tag=True):
    """A node takes no new work (or takes it again); what runs goes on."""

    node: NodeId
    drained: bool
    by: str
    why: str = ""


class NodeAssigned(FactBase, frozen=True, tag=True):
    """A node serves another pool from now on, whatever its agent says; what runs on it goes on."""

    node: NodeId
    pool: str
    """Empty gives it back to the pool that its agent names."""
    by: str
    why: str = ""
