"""What else a node has besides CPUs, memory and devices: local storage, huge pages, and its ports."""

import asyncio
from typing import Any

from tests.kubernetes.house import PODS, House, opened
from tests.kubernetes.test_adopted import bound

from dollhouse.loop import live

Object = dict[str, Any]


async def ask(house: House, name: str, limits: Object | None = None, ports: tuple[int, ...] = (), **spec: Any) -> None:
    """Somebody makes a pod that asks for this."""
    container = {
        "name": "c",
        "image": "x:1",
        "resources": {"limits": limits or {}},
        "ports": [{"containerPort": 80, "hostPort": port} for port in ports],
    }
    body = {"metadata": {"name": name}, "spec": {"schedulerName": "gangline", "containers": [container], **spec}}
    await house.ask("POST", PODS, body)


def test_local_storage_and_huge_pages_of_a_node_are_respected() -> None:
    live(storage_story())


async def storage_story() -> None:
    async with opened(nodes=0) as house:
        house.kubelets.add_node("n0", gpus=4, allocatable={"ephemeral-storage": "10Gi", "hugepages-2Mi": "1Gi"})
        await house.world.until(lambda state: len(state.kept.nodes) == 1)
        await ask(house, "others", {"ephemeral-storage": "4Gi"}, schedulerName="default-scheduler", nodeName="n0")
        await ask(house, "too-much", {"ephemeral-storage": "500Gi"})
        await ask(house, "huge", {"hugepages-2Mi": "2Gi", "memory": "1Gi"})
        await asyncio.sleep(5)
        await ask(house, "beside", {"ephemeral-storage": "7Gi"})
        await ask(house, "fits", {"ephemeral-storage": "6Gi", "hugepages-2Mi": "1Gi", "memory": "1Gi"})
        await house.until(lambda: bound(house).get("fits") == "n0")
        await asyncio.sleep(20)
        assert set(bound(house)) == {"others", "fits"}


def test_two_pods_that_want_one_port_are_not_on_one_node() -> None:
    live(port_story())


async def port_story() -> None:
    async with opened(nodes=2) as house:
        await ask(house, "others", ports=(9000,), schedulerName="default-scheduler", nodeName="n0")
        for name in ("a", "b", "c"):
            await ask(house, name, ports=(8080,))
        await ask(house, "away", ports=(9000,))
        await house.until(lambda: len(bound(house)) == 4, 30)
        await asyncio.sleep(30)
        where = bound(house)
        assert where["away"] == "n1"
        waits = {"a", "b", "c"} - set(where)
        assert len(waits) == 1
        first, second = {"a", "b", "c"} - waits
        assert where[first] != where[second]
        house.kubelets.finish_named("team", first)
        await house.until(lambda: next(iter(waits)) in bound(house), 60)


def test_a_job_file_asks_for_local_storage_in_mebibytes() -> None:
    live(file_story())


async def file_story() -> None:
    async with opened(nodes=0) as house:
        house.kubelets.add_node("n0", gpus=1, allocatable={"ephemeral-storage": "10Gi"})
        await house.world.until(lambda state: len(state.kept.nodes) == 1)
        await house.apply("scratch", command=["x"], devices={"ephemeral-storage": 2048})
        await house.phase("scratch", "Running")
        (pod,) = await house.pods()
        assert pod["spec"]["containers"][0]["resources"]["limits"]["ephemeral-storage"] == "2048Mi"
