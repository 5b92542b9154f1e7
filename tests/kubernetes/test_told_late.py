"""A pod is told why it waits only as long as it does: whoever bound it meanwhile is not contradicted."""

import asyncio

from tests.kubernetes.house import NAMESPACE, PODS, House, opened
from tests.kubernetes.test_adopted import make
from tests.kubernetes.test_autoscaling import pod_named, why

from dollhouse.loop import live
from kubedouble.faults import Fault


async def telling_second(house: House) -> None:
    """One pod has the only GPU; the words to a second one, that it waits, are on their way for three seconds."""
    await make(house, "first")
    await house.until(lambda: bool(pod_named(house, "first")["spec"].get("nodeName")))
    slow = house.double.faults.add(Fault(method="PATCH", path="/pods/second/status", delay_s=3.0))
    await make(house, "second")
    await house.until(lambda: slow.times == 0)


def test_what_is_told_late_does_not_undo_a_binding() -> None:
    live(late_story())


async def late_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await telling_second(house)
        target = {"target": {"kind": "Node", "name": "n0"}, "metadata": {"name": "second"}}
        await house.ask("POST", f"{PODS}/second/binding", target)
        await asyncio.sleep(10)
        conditions = {one["type"]: one["status"] for one in pod_named(house, "second")["status"]["conditions"]}
        assert conditions["PodScheduled"] == "True"


def test_a_pod_that_somebody_else_changes_is_told_all_the_same() -> None:
    live(changed_story())


async def changed_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await telling_second(house)
        note = {"metadata": {"annotations": {"somebody": "else"}}}
        await house.ask("PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/second", note, "application/merge-patch+json")
        await house.until(lambda: why(house, "second") == "Unschedulable", 20)
