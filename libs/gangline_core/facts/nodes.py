"""Facts of the door about machines: whether they take work, which pool they serve, and that they are gone for good."""

from gangline_core.facts.form import FactBase
from gangline_core.ids import NodeId, TaskId


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


class NodeForgotten(FactBase, frozen=True, tag=True):
    """A lost node, or one of a cluster whose service is away, is no more: what nobody saw end on it counts as gone.

    It does nothing where the node is there again, or holds other tasks. If it ever comes back it is a new one.
    """

    node: NodeId
    by: str
    why: str = ""
    tasks: tuple[TaskId, ...] = ()
    """Tasks that nobody saw end: that their room is free rests on the administrator's word that the machine is gone."""
