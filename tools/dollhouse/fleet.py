"""Agents of the dollhouse: the real agent with a fake driver and machines that outlive it."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from dollhouse.hands import Hands
from dollhouse.machines import Ledger, Machines
from dollhouse.plan import MODEL
from dollhouse.telling import tell_steps
from gangline_agent.app import carry
from gangline_agent.config import Config
from gangline_agent.nodes import Fleet
from gangline_agent.reporter import Reporter
from gangline_agent.runner import Order
from gangline_core.cluster import Gpu, Node
from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_wire.samples import NodeSample

GPU_MEMORY_MIB = 40_960
MEMORY_MIB = 262_144
CPU_MILLI = 64_000
CUT = "a100-40gb"
"""How cards are cut that are."""


class Driver:
    """A fleet whose GPUs fail when told to; see gangline_agent.nodes.Nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """All GPUs are well."""
        self.sick: dict[tuple[str, int], str] = {}
        self.busy_percent: int | None = None
        """How busy all GPUs are; nobody measures them before any program tells of its steps."""
        self._fleet = Fleet(nodes)

    @property
    def ids(self) -> frozenset[NodeId]:
        """See Nodes."""
        return self._fleet.ids

    @property
    def described(self) -> Sequence[Node]:
        """See Nodes."""
        return self._fleet.described

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        """See Nodes."""

    def samples(self, state: State, at: int) -> tuple[NodeSample, ...]:
        """See Nodes."""
        return tuple(self._with_problems(sample) for sample in self._fleet.samples(state, at))

    def _with_problems(self, sample: NodeSample) -> NodeSample:
        gpus = tuple(
            replace(gpu, problem=self.sick.get((sample.node, gpu.index), ""), utilisation_percent=self.busy_percent)
            for gpu in sample.gpus
        )
        return replace(sample, gpus=gpus)

    def devices(self, order: Order) -> tuple[str, ...]:
        """See Nodes."""
        return self._fleet.devices(order)


class Rack:
    """The nodes of one agent: their driver, and the machines, which go on whatever becomes of the agent."""

    def __init__(
        self,
        name: str,
        gpus: Mapping[str, int],
        ledger: Ledger,
        *,
        orphan_s: float = 18.0,
        cut: int = 0,
        model: str = MODEL,
    ) -> None:
        """So many GPUs of this model per node; so many of the first node's are cut."""
        self.name = name
        self.driver = Driver(
            [
                _node(node, agent=name, gpus=count, cut=0 if place else cut, model=model)
                for place, (node, count) in enumerate(gpus.items())
            ]
        )
        self.machines = Machines(ledger, orphan_s=orphan_s)
        self._supervisors = Tasks()
        self._supervisors.spawn(self.machines.watch(), name=f"supervisors of {name}")

    async def close(self) -> None:
        """Nothing runs here any more."""
        self.machines.power_off()
        await self._supervisors.close()

    async def run(self, site: Site, config: Config) -> None:
        """The agent: the real one, with hands of this process on these machines."""
        reporter = Reporter(site, config, self.driver)
        hands = Hands(self.machines, site.bus.connection.gate, reporter.changed, reporter.met)  # type: ignore[attr-defined]  # the memory bus's connection has a gate
        hands.renew()
        tellers = Tasks()
        tellers.spawn(tell_steps(self.machines, reporter, self.driver), name=f"steps on {self.name}")
        try:
            await carry(site, config, reporter, hands, renew=hands.renew)
        finally:
            await tellers.close()


def _node(name: str, *, agent: str, gpus: int, cut: int, model: str) -> Node:
    return Node(
        id=NodeId(name),
        agent=agent,
        cpu_milli=CPU_MILLI,
        memory_mib=MEMORY_MIB,
        gpus=tuple(
            Gpu(
                index=k,
                model=model,
                memory_mib=GPU_MEMORY_MIB,
                uuid=f"GPU-{name}-{k}",
                island=k // 2,
                mig=CUT if k < cut else "",
            )
            for k in range(gpus)
        ),
        labels={"topology.gangline.dev/rack": agent},
    )
