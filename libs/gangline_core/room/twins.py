"""Whose card it is: of two nodes that tell of one, whoever told first has it, for as long as that node is there.

One machine may be carried under two names: its host was renamed and the agent began anew, an agent was put on a node of
a cluster that is here already, an image was cloned with an agent's folder. A card has one identity whoever tells of it,
so the second node takes no new work until the first is lost or no longer tells of the card; what runs there goes on.
Only an identity that a driver gave says so: simulated machines may call their cards as they like.
"""

from collections.abc import Mapping

from gangline_core.cluster import Gpu, Node
from gangline_core.ids import NodeId

_LENGTH = len("GPU-00000000-0000-0000-0000-000000000000")


class Twins:
    """Which node each card is of, and which nodes wait for cards of others."""

    def __init__(self, nodes: Mapping[NodeId, Node]) -> None:
        """As these nodes tell."""
        self._of: dict[str, NodeId] = {}
        self.waiting: dict[NodeId, None] = {}
        """Nodes that are there and have cards of others."""
        for node in nodes.values():
            self.enter(node)

    def first(self, node: Node) -> str:
        """The node that has the first card of this one that is another's; empty when all are its own."""
        others = (self._of.get(gpu.uuid, node.id) for gpu in node.gpus if _is_known(gpu))
        return next((other for other in others if other != node.id), "")

    def enter(self, node: Node) -> None:
        """A node is there, or as it now is."""
        if node.lost:
            return
        if node.twin:
            self.waiting[node.id] = None
            return
        for gpu in node.gpus:
            if _is_known(gpu):
                self._of[gpu.uuid] = node.id

    def leave(self, node: Node) -> None:
        """A node is lost, or changes: its cards are nobody's."""
        self.waiting.pop(node.id, None)
        for gpu in node.gpus:
            if self._of.get(gpu.uuid) == node.id:
                del self._of[gpu.uuid]


def _is_known(gpu: Gpu) -> bool:
    """True for a card whose driver told its identity, which no other card has."""
    return len(gpu.uuid) == _LENGTH and gpu.uuid.startswith("GPU-")
