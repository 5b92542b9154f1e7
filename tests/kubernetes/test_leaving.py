"""Taking Gangline off a cluster: nothing hangs, nothing that runs is touched."""

import asyncio

import pytest
from tests.kubernetes.house import JOBS, LEAVING, PODS, MemoryTransport, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_chart import rendered
from tests.kubernetes.test_rights import Right, calls, right_of

import programs
from dollhouse.clock import LoopClock
from dollhouse.loop import live
from gangline_kit.ids import SystemIds
from gangline_kubernetes.api import Api
from gangline_kubernetes.leaving import leave

__all__ = ["calls"]


def test_without_the_service_finalizers_are_taken_off_and_pods_run_on() -> None:
    live(leave_story())


async def leave_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await house.apply("train", tasks=2, gpus=1, command=["x"])
        await make(house, "others")
        await house.phase("train", "Running")
        await house.until(lambda: bound(house).get("others") == "n0")
        await house.world.crash("kubernetes")
        foreign = {"metadata": {"finalizers": ["gangline.dev/seen", "somebody.example/else"]}}
        await house.ask("PATCH", f"{PODS}/others", foreign, "application/merge-patch+json")
        done = await leave(Api(MemoryTransport(house.double, LEAVING), LoopClock(), SystemIds()))
        assert done == 4, "three pods and an object"
        left = [one["metadata"].get("finalizers") for one in house.stored("/pods")]
        assert sorted(filter(None, left)) == [["somebody.example/else"]]
        assert all(pod["status"]["phase"] == "Running" for pod in house.stored("/pods"))
        assert await leave(Api(MemoryTransport(house.double, LEAVING), LoopClock(), SystemIds())) == 0
        await house.ask("DELETE", f"{JOBS}/train")
        await asyncio.sleep(60)
        assert not house.stored("gangline.dev/jobs")
        assert [pod["metadata"]["name"] for pod in house.stored("/pods")] == ["others"], "the rest went with its object"


@pytest.mark.skipif(programs.found("helm") is None, reason=programs.why_not("helm"))
def test_the_hook_may_do_what_leaving_does_and_no_more(calls: set[Right]) -> None:
    live(leave_story())
    (role,) = (
        one for one in rendered([]) if one["kind"] == "ClusterRole" and one["metadata"]["name"].endswith("-leave")
    )
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed <= calls
    assert {right_of("PATCH", f"{PODS}/x"), right_of("GET", PODS)} <= allowed
    assert not [one for one in rendered(["cluster.leave=false"]) if one["metadata"]["name"].endswith("-leave")]
