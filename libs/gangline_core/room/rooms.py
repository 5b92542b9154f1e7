"""The room and the inventory of each pool, kept and brought up to date only when somebody looks."""

from gangline_core.cluster import Node, NodeUse
from gangline_core.ids import NodeId
from gangline_core.kept import Kept
from gangline_core.room.capacity import PLACES_MAX, Room
from gangline_core.room.inventory import Inventory, well
from gangline_core.room.joining import with_others
from gangline_core.room.seen import keep_seen


class Rooms:
    """Rooms by pool, with what changed since they were last looked at."""

    def __init__(self, kept: Kept, use: dict[NodeId, NodeUse]) -> None:
        """Of the nodes that `kept` has, now and later, and what is taken on them."""
        self._kept = kept
        self._use = use
        self._rooms: dict[str, Room] = {}
        self._inventories: dict[str, Inventory] = {}
        self._touched: dict[NodeId, None] = {}
        self._retold: dict[NodeId, None] = {}
        self.is_restored = False
        """False while what is taken is only being worked out, which is no change."""

    def touch(self, node: NodeId) -> None:
        """What is taken on a node is about to change."""
        self._touched[node] = None
        known = self._kept.nodes.get(node)
        pool = self._kept.pools.get(known.pool) if known is not None else None
        if pool is not None and pool.schedulers and self.is_restored:
            keep_seen(pool.schedulers.values(), node, self._use[node])

    def retell(self, node: NodeId) -> None:
        """Tasks of the node hold what they held, but may end at another time."""
        self._retold[node] = None

    def see(self, before: Node | None, node: Node) -> None:
        """The node itself is new or changed; whether it is well is nothing to the inventory."""
        self._touched[node.id] = None
        if before is None or well(before) != well(node):
            self._inventories.clear()

    def let_go(self, node: NodeId) -> None:
        """The node is no more, and whoever saw it earlier sees nothing of it."""
        self._touched[node] = None
        self._inventories.clear()
        kept = self._kept
        for known in (kept.nodes, self._use, kept.utilisation, kept.loads, kept.troubles):
            known.pop(node, None)
        for pool in kept.pools.values():
            for scheduler in pool.schedulers.values():
                scheduler.view.pop(node, None)

    def forget(self, pool: str) -> None:
        """What bounds the pool's nodes has changed: their room is worked out anew."""
        self._rooms.pop(pool, None)
        self._inventories.pop(pool, None)

    def nodes_of(self, pool: str) -> list[Node]:
        """Nodes of the pool in id order."""
        return sorted((node for node in self._kept.nodes.values() if node.pool == pool), key=lambda node: node.id)

    def room(self, pool: str) -> Room:
        """What is free on the pool's nodes now."""
        self._catch_up()
        if pool not in self._rooms:
            room = self._rooms[pool] = Room.of(self.nodes_of(pool), self._tasks_max(pool))
            for node in room.nodes:
                room.refresh(node, self._use[node.id])
        return self._rooms[pool]

    def inventory(self, pool: str) -> Inventory:
        """What the pool's machines could hold if they were empty and well."""
        if pool not in self._inventories:
            self._inventories[pool] = Inventory(self.nodes_of(pool), self._tasks_max(pool))
        return self._inventories[pool]

    def _bring_up_to_date(self, name: str) -> None:
        """See what is free on touched nodes of one pool; of those that joined or left, where it need not begin anew."""
        room, nodes = self._rooms[name], self._kept.nodes
        touched = [(node_id, nodes.get(node_id)) for node_id in self._touched]
        own = {node_id: node for node_id, node in touched if node is not None and node.pool == name}
        joined = [node for node_id, node in own.items() if node_id not in room.layout.row]
        left = frozenset(node_id for node_id, _ in touched if node_id in room.layout.row and node_id not in own)
        if joined or left:
            moved = with_others(room, joined, left)
            if moved is None:
                del self._rooms[name]
                return
            room = self._rooms[name] = moved
        for node_id, node in own.items():
            if not room.follows(node_id, node):
                del self._rooms[name]
                return
            room.refresh(node, self._use[node_id])

    def _tasks_max(self, pool: str) -> int:
        return self._kept.pools[pool].policy.node_tasks_max if pool in self._kept.pools else PLACES_MAX

    def _catch_up(self) -> None:
        for name in list(self._rooms):
            self._bring_up_to_date(name)
        for node_id in self._retold:
            for room in self._rooms.values():
                if node_id in room.layout.row:
                    room.layout.stale.add(room.layout.row[node_id])
        self._touched.clear()
        self._retold.clear()
