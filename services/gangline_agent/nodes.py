"""The nodes an agent carries: the machine it runs on, or many simulated ones. Both describe and sample them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent import machine
from gangline_agent.nvml import Nvml
from gangline_agent.pci import network_cards
from gangline_agent.runner import Order
from gangline_core.cluster import Node
from gangline_core.ids import NodeId
from gangline_core.remote import NIC, REMOTE_GPU
from gangline_core.state import State
from gangline_wire.samples import GpuSample, NodeSample

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
        nvml: Nvml | None = None,
        offers: "Offers | None" = None,
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
        )
        self.folder = folder
        self.gpus = machine.Gpus()
        self.disk_problem = ""
        self._nvml = nvml or Nvml()
        self._nics = network_cards()
        self._offers = offers or Offers()
        self.owner_of: Callable[[int], str] = lambda pid: ""
        """The task that a process belongs to, or an empty text."""
        self._is_seen = False
        self._ticks = machine.cpu_ticks()
        self._cpu_percent: int | None = None

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
                gpus=self.gpus.gpus,
                pool=node.pool,
                labels=node.labels,
                address=node.address,
                problem=self.gpus.problem or self.disk_problem,
                nics=self._nics,
                devices=self._offers.devices(len(self.gpus.gpus)),
            ),
        )

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        """See Nodes."""
        reading = await asyncio.to_thread(self._nvml.read)
        before = self.gpus.gpus
        if not self._is_seen and self.node.id in known:
            before = machine.still_there(known[self.node.id].gpus, reading)
        self._is_seen = True
        self.gpus = machine.describe(before, reading)
        self.disk_problem = machine.disk_problem(self.folder)
        ticks = machine.cpu_ticks()
        if ticks is not None and self._ticks is not None and ticks[1] > self._ticks[1]:
            self._cpu_percent = 100 * (ticks[0] - self._ticks[0]) // (ticks[1] - self._ticks[1])
        self._ticks = ticks

    def samples(self, state: State, at: int) -> tuple[NodeSample, ...]:
        """See Nodes."""
        return (
            NodeSample(
                node=self.node.id,
                at=at,
                gpus=tuple(self._owned(sample) for sample in self.gpus.samples),
                cpu_percent=self._cpu_percent,
                memory_used_mib=machine.memory_used_mib(),
                memory_total_mib=self.node.memory_mib,
            ),
        )

    def _owned(self, sample: GpuSample) -> GpuSample:
        """The sample with the tasks that its processes belong to, by the marks of their supervisors."""
        owners = {owner for pid, _ in sample.processes if (owner := self.owner_of(pid))}
        return replace(sample, tasks=tuple(sorted(owners))) if owners else sample

    def devices(self, order: Order) -> tuple[str, ...]:
        """See Nodes."""
        return tuple(str(self.gpus.devices.get(share.index, share.index)) for share in order.task.gpus)


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
