"""Two clusters on one platform, with nodes of equal names: neither takes the other's."""

import asyncio

import msgspec
from tests.kubernetes.house import CRDS, NAMESPACE, PODS, House, MemoryTransport, opened

from dollhouse.clock import LoopClock
from dollhouse.loop import live
from gangline_core.cluster import Node
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_kit.service import Site
from gangline_kubernetes.app import run as run_cluster
from gangline_kubernetes.config import Config
from gangline_kubernetes.definitions import definitions
from kubedouble.kubelet import Kubelets
from kubedouble.server import Double


async def second(house: House, *nodes: str) -> tuple[Double, Kubelets]:
    """Another cluster joins the platform."""
    clock = LoopClock()
    double = Double(lambda: clock.now_ms() / 1000)
    kubelets = Kubelets(double)
    for one in definitions():
        await double.handle("POST", CRDS, "", msgspec.json.encode(one))
    notes = {"gangline.dev/group": "lab", "gangline.dev/user": "ann"}
    for name in (NAMESPACE, "gangline-jobs"):
        body = {"metadata": {"name": name, "annotations": notes}}
        await double.handle("POST", "/api/v1/namespaces", "", msgspec.json.encode(body))
    for name in nodes:
        kubelets.add_node(name, gpus=4)

    async def run(site: Site, config: Config) -> None:
        await run_cluster(site, config, MemoryTransport(double))

    house.world.start("kubernetes2", run, msgspec.convert({"image": "t:1", "cluster": "b"}, Config))
    return double, kubelets


def test_a_node_whose_name_another_cluster_has_takes_no_work_and_is_told_so() -> None:
    live(twins_story())


async def twins_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await house.apply("a", tasks=1, gpus=2, command=["x"])
        await house.phase("a", "Running")

        def node(name: str) -> Node:
            return house.world.state.kept.nodes[NodeId(name)]

        double, kubelets = await second(house, "n0", "other")
        await house.until(lambda: node("other").agent == "kubernetes.b")
        await asyncio.sleep(30)
        told = [one for one in double.store.all("/events") if one["reason"] == "NameTaken"]
        assert [(one["involvedObject"]["name"], one["type"]) for one in told] == [("n0", "Warning")]
        for turn in ("False", "True"):
            house.kubelets.set_ready("n0", turn)
            kubelets.set_ready("n0", turn)
            await asyncio.sleep(20)
            assert (node("n0").agent, len(node("n0").gpus)) == ("kubernetes.kubernetes", 2)
        found = await double.handle("DELETE", "/api/v1/nodes/n0", "")
        assert found.status == 200
        await asyncio.sleep(30)
        assert not node("n0").lost, "it was the other cluster's"
        assert house.status("a")["phase"] == "Running"


def test_the_name_is_free_when_the_other_node_is_gone() -> None:
    live(freed_story())


async def freed_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await second(house, "n0")
        await asyncio.sleep(20)
        await house.ask("DELETE", "/api/v1/nodes/n0")
        await house.until(lambda: house.world.state.kept.nodes[NodeId("n0")].agent == "kubernetes.b")
        assert not house.world.state.kept.nodes[NodeId("n0")].lost


def test_a_cluster_that_was_given_another_name_keeps_its_nodes() -> None:
    live(renamed_story())


async def renamed_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await house.world.crash("kubernetes")

        async def run(site: Site, config: Config) -> None:
            await run_cluster(site, config, MemoryTransport(house.double))

        house.world.start("kubernetes", run, msgspec.convert({"image": "t:1", "cluster": "new"}, Config))
        await house.until(lambda: house.world.state.kept.nodes[NodeId("n0")].agent == "kubernetes.new")


def test_what_a_clusters_objects_ask_for_stays_on_its_own_nodes_though_others_of_the_pool_are_free() -> None:
    live(at_home_story())


async def at_home_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await second(house, "other")
        await house.until(lambda: NodeId("other") in house.world.state.kept.nodes)
        await house.apply("first", gpus=2, command=["x"])
        await house.phase("first", "Running")
        await house.apply("object", gpus=2, command=["x"])
        await house.apply("roles", roles=[{"name": "a", "gpus": 1, "command": ["x"], "node_selector": {}}])
        container = {"name": "a", "image": "t:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        pod = {"metadata": {"name": "pod"}, "spec": {"schedulerName": "gangline", "containers": [container]}}
        await house.ask("POST", PODS, pod)
        await asyncio.sleep(60)
        states = {job.spec.name: job.state for job in house.world.state.kept.jobs.values()}
        assert len(states) == 4
        assert [state for name, state in states.items() if name != "first"] == [JobState.WAITING] * 3
        assert house.status("object")["reason"] == "InsufficientGpus"


def test_a_job_object_that_names_no_pool_is_for_the_pool_of_its_clusters_nodes() -> None:
    live(own_pool_story())


async def own_pool_story() -> None:
    async with opened(nodes=1, gpus=2, pool="cards") as house:
        await house.apply("train", gpus=2, command=["x"])
        found = await house.phase("train", "Running")
        assert house.job(found["status"]["job"]).spec.pool == "cards"
        await house.apply("astray", gpus=2, command=["x"], pool="nowhere")
        await house.phase("astray", "Refused")
