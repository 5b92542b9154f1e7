"""Agents on cluster nodes: what they see of the cards meets the node objects, and a sick card is left out."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from tests.kubernetes.house import House, opened
from tests.kubernetes.test_devices import offer

from dollhouse.loop import live
from gangline_agent.onlooker import Onlooker
from gangline_core.cluster import Gpu, Nic, Node
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.state import State
from gangline_kit.service import Site
from gangline_kubernetes.nodes import counted
from gangline_wire.samples import GpuSample, NodeSample, NodeView

CARDS = tuple(
    Gpu(
        index=k,
        model="NVIDIA H100 80GB HBM3",
        memory_mib=81_559,
        uuid=f"GPU-{k}",
        socket=k // 4,
        island=0,
        switch=k // 2,
        nvlink_mib_s=25_000,
    )
    for k in range(8)
)


class Cards:
    """The machine behind a cluster's node, as its driver shows it to an agent."""

    def __init__(self, name: str) -> None:
        self.node = Node(
            id=NodeId(name),
            agent=name,
            cpu_milli=1,
            memory_mib=1,
            gpus=CARDS,
            nics=(Nic(name="mlx5_0", socket=0, switch=0),),
            labels={"gangline.dev/driver": "580.1"},
        )
        self.problems: dict[int, str] = {}

    @property
    def ids(self) -> frozenset[NodeId]:
        """See gangline_agent.nodes.Nodes."""
        return frozenset({self.node.id})

    @property
    def described(self) -> Sequence[Node]:
        """See Nodes."""
        return (self.node,)

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        """See Nodes."""

    def samples(self, state: State, at: int) -> tuple[NodeSample, ...]:
        """See Nodes."""
        gpus = tuple(GpuSample(index=k, uuid=f"GPU-{k}", problem=self.problems.get(k, "")) for k in range(8))
        return (NodeSample(node=self.node.id, at=at, gpus=gpus),)

    def devices(self, order: Any) -> tuple[str, ...]:
        """See Nodes."""
        return ()


async def look(house: House, name: str = "n0") -> Cards:
    """An agent begins to look at the node."""
    cards = Cards(name)

    async def run(site: Site, config: None) -> None:
        await Onlooker(site, cards, name=name).look_for_ever()

    house.world.start(f"agent-{name}", run, None)
    await house.until(lambda: bool(node_of(house, name).nics))
    return cards


def node_of(house: House, name: str = "n0") -> Node:
    """The node as the log has it."""
    return house.world.state.kept.nodes[NodeId(name)]


def usable(house: House, name: str = "n0") -> list[int]:
    """Indexes of cards that may be used."""
    return [gpu.index for gpu in node_of(house, name).gpus if gpu.healthy]


def with_allocatable(node: dict[str, Any], gpus: int) -> dict[str, Any]:
    """The node as its device plugin counts it."""
    room = {**node["status"]["allocatable"], "nvidia.com/gpu": str(gpus)}
    return {**node, "status": {**node["status"], "allocatable": room}}


def test_an_agents_machine_and_the_clusters_node_are_one_node() -> None:
    live(one_story())


async def one_story() -> None:
    async with opened(nodes=2) as house:
        await look(house)
        assert sorted(house.world.state.kept.nodes) == ["n0", "n1"]
        node = node_of(house)
        assert node.agent == "kubernetes.kubernetes"
        assert [gpu.uuid for gpu in node.gpus] == [f"GPU-{k}" for k in range(8)]
        assert (node.gpus[5].socket, node.gpus[5].switch, node.gpus[5].nvlink_mib_s) == (1, 2, 25_000)
        assert {gpu.model for gpu in node.gpus} == {gpu.model for gpu in node_of(house, "n1").gpus} == {"NVIDIA-H100"}
        assert node.labels["gangline.dev/driver"] == "580.1"
        assert node.cpu_milli == 96_000, "what a node has is the kubelet's word"
        await house.apply("train", gpus=8, command=["sleep"])
        await house.phase("train", "Running")


def test_a_card_that_fails_is_left_out_once_whoever_counts_it() -> None:
    live(failing_story())


async def failing_story() -> None:
    async with opened(nodes=1) as house:
        cards = await look(house)
        cards.problems[3] = "the driver does not show it"
        await house.until(lambda: usable(house) == [0, 1, 2, 4, 5, 6, 7])
        house.kubelets.change_node("n0", lambda node: with_allocatable(node, 7))
        await asyncio.sleep(5)
        assert usable(house) == [0, 1, 2, 4, 5, 6, 7], "the device plugin leaves out the same card, not another"
        await house.apply("all", gpus=8, command=["sleep"])
        await house.apply("seven", gpus=7, command=["sleep"])
        await house.phase("seven", "Running")
        assert house.job(1).state == JobState.WAITING
        del cards.problems[3]
        await house.until(lambda: len(usable(house)) == 7, 30)
        house.kubelets.change_node("n0", lambda node: with_allocatable(node, 8))
        await house.until(lambda: usable(house) == list(range(8)), 30)


def test_a_card_that_only_the_device_plugin_holds_bad_is_one_less() -> None:
    live(fewer_story())


async def fewer_story() -> None:
    async with opened(nodes=1) as house:
        await look(house)
        house.kubelets.change_node("n0", lambda node: with_allocatable(node, 6))
        await house.until(lambda: len(usable(house)) == 6)
        house.kubelets.change_node("n0", lambda node: with_allocatable(node, 8))
        await house.until(lambda: len(usable(house)) == 8)


def test_a_driver_that_does_not_answer_closes_the_node_and_an_agent_that_is_gone_does_not() -> None:
    live(driver_story())


async def driver_story() -> None:
    async with opened(nodes=1) as house:
        cards = await look(house)
        await house.apply("early", gpus=1, command=["sleep"])
        await house.phase("early", "Running")
        cards.node = replace(cards.node, problem="NVML: driver/library version mismatch")
        await house.until(lambda: "mismatch" in node_of(house).problem)
        assert not node_of(house).takes_work
        assert house.job(1).state == JobState.RUNNING, "what runs is not harmed"
        await house.world.crash("agent-n0")
        await house.until(lambda: node_of(house).takes_work, 120)
        assert node_of(house).gpus[0].uuid == "GPU-0", "what was seen of the cards stays"
        assert not node_of(house).lost, "whether it is lost is the cluster's word"


def test_a_new_leader_remembers_what_agents_saw_until_they_say_it_again() -> None:
    live(leader_story())


async def leader_story() -> None:
    async with opened(nodes=1) as house:
        await look(house)
        seen: list[list[str]] = []
        await house.world.crash("agent-n0")
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        for _ in range(100):
            await asyncio.sleep(0.2)
            seen.append([gpu.uuid for gpu in node_of(house).gpus])
        assert {tuple(one) for one in seen} == {tuple(f"GPU-{k}" for k in range(8))}


def test_gpus_of_a_driver_keep_their_numbers_and_get_their_links() -> None:
    live(links_story())


async def links_story() -> None:
    async with opened(nodes=0, mode="dra") as house:
        house.kubelets.add_node("n0", gpus=0)
        await offer(house, "n0", 8)
        await house.until(lambda: len(node_of(house).gpus) == 8)
        assert not node_of(house).gpus[5].nvlink_mib_s
        await look(house)
        await house.until(lambda: node_of(house).gpus[5].nvlink_mib_s == 25_000)
        assert [gpu.index for gpu in node_of(house).gpus] == list(range(8))


def test_a_node_that_offers_no_whole_gpus_gets_none_from_an_agent() -> None:
    assert counted((), NodeView(node="n0", gpus=CARDS)) == ()
