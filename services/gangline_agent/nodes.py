"""The nodes an agent carries: the machine it runs on, or many simulated ones. Both describe and sample them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent import machine
from gangline_agent.card_tests import CardTests
from gangline_agent.host import Host
from gangline_agent.nvml import Nvml
from gangline_agent.pci import PCI_DEVICES, network_cards
from gangline_agent.runner import Order
from gangline_agent.senses import Reading, Source, unread
from gangline_agent.topology_file import Place
from gangline_agent.xids import Xids
from gangline_core.cluster import Node
from gangline_core.ids import NodeId
from gangline_core.room.remote import NIC, REMOTE_GPU
from gangline_core.state import State
from gangline_wire.samples import GpuSample, NodeSample

LABELS = "gangline.dev/"
TASKS_EVERY = 5
"""What tasks take of the machine is looked at in every so many-th look."""
GPU_SAMPLES_EVERY = 10
"""Simulated nodes show their GPUs in every so many-th sample; the others are heartbeats only."""


class Nodes(Protocol):
    """What the agent asks of the nodes it carries."""

    @property
    def ids(self) -> frozenset[NodeId]:
        """Their names, which never change."""

    @property
    def described(self) -> Sequence[Node]:
        """Their present descriptions."""

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        """Look again; `known` are the nodes of the fold."""

    def samples(self, state: State, at: int) -> tuple[NodeSample, ...]:
        """How they are now."""

    def devices(self, order: Order) -> tuple[str, ...]:
        """How the driver calls the GPUs of a task."""


class Offers(Struct, frozen=True):
    """What this machine offers to jobs beside its CPUs, memory and GPUs."""

    nic_mbps: int = 0
    """Mbit/s of its network that jobs may reserve."""
    gpus_over_network: bool = False
    """Its GPUs may be served to programs on other machines."""

    def devices(self, gpus: int) -> dict[str, int]:
        """As countable devices, zeros left out."""
        found = {NIC: self.nic_mbps, REMOTE_GPU: gpus if self.gpus_over_network else 0}
        return {name: amount for name, amount in found.items() if amount}


class Machine:
    """This machine as one node."""

    def __init__(
        self,
        *,
        name: str,
        pool: str,
        address: str,
        labels: dict[str, str],
        folder: str,
        source: Source | None = None,
        monotonic_s: Callable[[], float],
        pci_devices: Path = PCI_DEVICES,
        offers: "Offers | None" = None,
        tests: CardTests | None = None,
        xids: Xids | None = None,
        place: Place | None = None,
        ends_alone_ms: int = 28_000,
    ) -> None:
        """Nothing is looked at before `refresh`. `folder` is where tasks write, on a disk that must have room."""
        self.node = Node(
            id=NodeId(name),
            agent=name,
            cpu_milli=machine.cpu_milli(),
            memory_mib=machine.memory_mib(),
            pool=pool,
            address=address,
            labels=labels,
            ends_alone_ms=ends_alone_ms,
        )
        self.folder = folder
        self.gpus = machine.Gpus()
        self.disk_problem = ""
        self._source = source or Nvml()
        self._host = Host(folder, monotonic_s)
        self._pci_devices = pci_devices
        self._labels: dict[str, str] = {}
        """What was found out about drivers and cards; what the administrator says goes before."""
        self._place = place or Place()
        self._nics = self._place.nics or network_cards()
        self._offers = offers or Offers()
        self.tests = tests or CardTests("", every_s=0, monotonic_s=monotonic_s)
        self._xids = xids or Xids()
        self.owner_of: Callable[[int], str] = lambda pid: ""
        """The task that a process belongs to, or an empty text."""
        self.pids_of_tasks: Callable[[], Mapping[str, Sequence[int]]] = dict
        """The processes of every task that runs here; blocks for a while."""
        self._is_seen = False
        self._looks = 0

    @property
    def ids(self) -> frozenset[NodeId]:
        """See Nodes."""
        return frozenset({self.node.id})

    @property
    def described(self) -> Sequence[Node]:
        """See Nodes."""
        node = self.node
        return (
            Node(
                id=node.id,
                agent=node.agent,
                cpu_milli=node.cpu_milli,
                memory_mib=node.memory_mib,
                gpus=self._place.on(self.gpus.gpus),
                pool=node.pool,
                labels=self._labels | self._place.labels | node.labels,
                address=node.address,
                problem=self.gpus.problem or self.disk_problem,
                nics=self._nics,
                devices=self._offers.devices(len(self.gpus.gpus)),
                ends_alone_ms=node.ends_alone_ms,
            ),
        )

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        """See Nodes."""
        reading = await asyncio.to_thread(self._look)
        self._xids.hear(reading.xids)
        before = self.gpus.gpus
        if not self._is_seen and self.node.id in known:
            before = machine.still_there(known[self.node.id].gpus, reading)
        self._is_seen = True
        self.gpus = machine.describe(before, reading)
        self.disk_problem = machine.disk_problem(self.folder)
        if reading.has_driver and not reading.problem:
            self._labels |= {LABELS + name: version for name, version in reading.versions.items()}

    def _look(self) -> Reading:
        """All that blocks."""
        if self._looks == 0:
            self._labels = {f"{LABELS}{maker}-gpus-unread": str(n) for maker, n in unread(self._pci_devices).items()}
        self._host.look()
        if self._looks % TASKS_EVERY == 0:
            self._host.look_at_tasks(self.pids_of_tasks())
        self._looks += 1
        return self._source.read()

    def samples(self, state: State, at: int) -> tuple[NodeSample, ...]:
        """See Nodes."""
        self.tests.look(state, state.kept.nodes.get(self.node.id), self.gpus.samples)
        self._xids.number(at)
        return (
            replace(
                self._host.last,
                node=self.node.id,
                at=at,
                gpus=tuple(self.tests.marked(self._owned(sample)) for sample in self.gpus.samples),
                memory_total_mib=self.node.memory_mib,
            ),
        )

    def _owned(self, sample: GpuSample) -> GpuSample:
        """The sample with its last events and the tasks that its processes belong to, by their supervisors' marks."""
        slices = tuple(replace(one, tasks=self._owners(one.processes)) for one in sample.slices)
        events = self._xids.of(sample.uuid)
        return replace(sample, tasks=self._owners(sample.processes), slices=slices, events=events)

    def _owners(self, processes: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
        return tuple(sorted({owner for pid, _ in processes if (owner := self.owner_of(pid))}))

    def number_of(self, index: int) -> int:
        """How the driver calls a GPU."""
        return self.gpus.devices.get(index, index)

    def devices(self, order: Order) -> tuple[str, ...]:
        """See Nodes."""
        return machine.visible_devices(self.gpus, order.task.gpus)


class Fleet:
    """Simulated nodes; their samples follow from what the log has placed on them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Carry these."""
        self._nodes = tuple(nodes)
        self._ids = frozenset(node.id for node in nodes)
        self._turn = 0

    @property
    def ids(self) -> frozenset[NodeId]:
        """See Nodes."""
        return self._ids

    @property
    def described(self) -> Sequence[Node]:
        """See Nodes."""
        return self._nodes

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        """See Nodes."""

    def samples(self, state: State, at: int) -> tuple[NodeSample, ...]:
        """See Nodes."""
        self._turn = (self._turn + 1) % GPU_SAMPLES_EVERY
        return tuple(
            NodeSample(
                node=node.id,
                at=at,
                gpus=_simulated(state, node) if number % GPU_SAMPLES_EVERY == self._turn else (),
            )
            for number, node in enumerate(self._nodes)
        )

    def devices(self, order: Order) -> tuple[str, ...]:
        """See Nodes."""
        return tuple(str(share.index) for share in order.task.gpus)


def _simulated(state: State, node: Node) -> tuple[GpuSample, ...]:
    """A GPU is as busy as its tasks make it: each task has its own fixed appetite between 50 and 99 percent."""
    milli: Counter[int] = Counter()
    memory: Counter[int] = Counter()
    for name in state.node_tasks.get(node.id, ()):
        task = state.kept.tasks[name]
        for share in task.gpus:
            milli[share.index] += share.milli * (50 + crc32(name.encode()) % 50) // 1000
            memory[share.index] += share.memory_mib
    return tuple(
        GpuSample(
            index=gpu.index,
            uuid=gpu.uuid,
            model=gpu.model,
            utilisation_percent=milli[gpu.index],
            memory_used_mib=min(memory[gpu.index], gpu.memory_mib),
            memory_total_mib=gpu.memory_mib,
        )
        for gpu in node.gpus
    )
