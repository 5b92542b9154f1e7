"""What drivers offer on each node, as their slices come and go: the last complete word of each pool of devices."""

from collections.abc import Mapping

from gangline_core.cluster import Gpu, Node
from gangline_core.ids import NodeId
from gangline_kubernetes.claims import Place
from gangline_kubernetes.devices import ResourceSlice, TaintRule
from gangline_kubernetes.offers import Offer, complete, gpus_of, numbers_of, offer_of, place_of, ruled


class Offering:
    """The slices of every node, the pools they make up, and the number of each device."""

    def __init__(self, driver: str = "") -> None:
        """Nothing was published yet by this driver."""
        self._driver = driver
        self._rules: dict[str, TaintRule] = {}
        """Rules that taint devices from outside, by uid."""
        self.node_of: dict[str, NodeId] = {}
        """Node of each pool of devices."""
        self._slices: dict[NodeId, dict[str, ResourceSlice]] = {}
        self._pools: dict[NodeId, dict[str, tuple[Offer, ...] | None]] = {}
        """Offers of each pool; None where we never saw all of its slices."""
        self._numbers: dict[NodeId, dict[Place, int]] = {}

    def hear(self, before: ResourceSlice | None, after: ResourceSlice | None) -> list[NodeId]:
        """A slice came, changed or went; gives the nodes about which something may be new."""
        nodes: dict[NodeId, None] = {}
        if before is not None and before.metadata.uid in self._slices.get(NodeId(before.spec.node_name), {}):
            del self._slices[NodeId(before.spec.node_name)][before.metadata.uid]
            nodes[NodeId(before.spec.node_name)] = None
        if after is not None and after.spec.node_name:
            name = NodeId(after.spec.node_name)
            self._slices.setdefault(name, {})[after.metadata.uid] = after
            self.node_of[after.spec.pool.name] = name
            nodes[name] = None
        for name in nodes:
            last = self._pools.get(name, {})
            slices = sorted(self._slices[name].values(), key=lambda one: one.metadata.name)
            self._pools[name] = {
                pool: offers if offers is not None else last.get(pool) for pool, offers in complete(slices).items()
            }
        return list(nodes)

    def hear_rule(self, before: TaintRule | None, after: TaintRule | None) -> list[NodeId]:
        """A rule came, changed or went; gives the nodes about which something may be new."""
        for one in filter(None, (before,)):
            self._rules.pop(one.metadata.uid, None)
        if after is not None:
            self._rules[after.metadata.uid] = after
        return list(self._pools)

    def gpus(self, name: NodeId, known: Node | None, labels: Mapping[str, str]) -> tuple[Gpu, ...]:
        """The node's GPUs, those that left it included for as long as the log has them."""
        offers, have = self._offers(name, known), known.gpus if known is not None else ()
        return gpus_of(offers, have, self._numbered(name, offers, have), labels)

    def places(self, name: NodeId, known: Node | None) -> dict[int, Place]:
        """Pool and device behind each number, of those that are offered."""
        offers = self._offers(name, known)
        numbers = self._numbered(name, offers, known.gpus if known is not None else ())
        return {numbers[one.place]: one.place for one in offers}

    def _offers(self, name: NodeId, known: Node | None) -> tuple[Offer, ...]:
        pools = self._pools.get(name, {})
        found = ruled((one for offers in pools.values() for one in offers or ()), self._rules.values(), self._driver)
        unseen = {pool for pool, offers in pools.items() if offers is None}
        # Before we have seen all of a pool, what the log has of it stands.
        old = known.gpus if known is not None and unseen else ()
        return (*found, *(offer_of(gpu) for gpu in old if gpu.device and place_of(gpu)[0] in unseen))

    def _numbered(self, name: NodeId, offers: tuple[Offer, ...], known: tuple[Gpu, ...]) -> dict[Place, int]:
        numbers = numbers_of(offers, known, self._numbers.get(name))
        self._numbers[name] = numbers
        return numbers
