"""A pod is a task only where the log says so, too: what it says of itself proves nothing, with or without a policy."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import NAMESPACE, PODS, House, Object, opened
from tests.kubernetes.test_adopted import bound, make

from dollhouse.loop import live
from gangline_core.facts import TaskExited
from gangline_core.job import JobState

CONTAINER = {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "40"}, "limits": {"nvidia.com/gpu": "4"}}}


async def forge(house: House, name: str, like: Object, namespace: str = NAMESPACE, **meta: Any) -> Object:
    """Somebody runs a pod on n0 that bears all marks of a pod of ours."""
    marked = {key: like["metadata"][key] for key in ("annotations", "labels", "finalizers") if key in like["metadata"]}
    body = {"metadata": {"name": name, **marked, **meta}, "spec": {"nodeName": "n0", "containers": [CONTAINER]}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    made: Object = await house.ask("POST", path, body)
    return made


def free_gpus(house: House) -> int:
    """GPUs that the log has on the node n0."""
    return len(house.world.state.kept.nodes["n0"].gpus)


@pytest.mark.parametrize("kind", ["ours", "adopted"])
def test_a_pod_with_copied_marks_is_a_pod_of_others_that_uses_what_it_asks_for(kind: str) -> None:
    live(copied_story(kind))


async def copied_story(kind: str) -> None:
    async with opened(nodes=1) as house:
        if kind == "ours":
            await house.apply("train", gpus=1, command=["sleep"])
        else:
            await make(house, "train")
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        (real,) = house.stored("/pods")
        forged = await forge(house, "forged", real)
        await house.until(lambda: free_gpus(house) == 4)
        house.kubelets.finish(forged, 1)
        await asyncio.sleep(10)
        assert house.job(1).state == JobState.RUNNING, "the end of a forged pod is not the end of the task"
        assert len(house.stored("/pods")) == 2, "and it is nobody's to delete"
        await house.until(lambda: free_gpus(house) == 8)


def test_the_right_name_in_another_namespace_is_no_task_either() -> None:
    live(elsewhere_story())


async def elsewhere_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, command=["sleep"])
        await house.phase("train", "Running")
        (real,) = house.stored("/pods")
        await forge(house, real["metadata"]["name"], real, namespace="gangline-jobs")
        await house.until(lambda: free_gpus(house) == 4)
        assert house.job(1).state == JobState.RUNNING


def test_a_member_that_says_it_is_another_member_is_not_believed() -> None:
    live(swapped_story())


async def swapped_story() -> None:
    words = {"gangline.dev/gang": "g", "gangline.dev/gang-size": "2"}
    async with opened(nodes=1) as house:
        await make(house, "g-0", labels=words)
        await make(house, "g-1", labels=words)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        first, second = house.stored("/pods")
        note = {"gangline.dev/task": second["metadata"]["annotations"]["gangline.dev/task"]}
        await house.ask(
            "PATCH", f"{PODS}/g-0", {"metadata": {"annotations": note}}, form="application/merge-patch+json"
        )
        await asyncio.sleep(5)
        assert set(bound(house)) == {"g-0", "g-1"}
        assert house.job(1).state == JobState.RUNNING
        house.kubelets.finish(house.stored("/pods")[0], 7)
        await asyncio.sleep(5)
        ended = [fact.task for fact in house.facts if isinstance(fact, TaskExited) and fact.exit_code == 7]
        assert ended == [first["metadata"]["annotations"]["gangline.dev/task"]], "it is the task that it always was"


def test_a_pod_that_waits_with_copied_marks_is_scheduled_like_any_other() -> None:
    live(waiting_story())


async def waiting_story() -> None:
    async with opened(nodes=1) as house:
        await make(house, "real")
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        (real,) = house.stored("/pods")
        await make(house, "copy", annotations=real["metadata"]["annotations"])
        await house.until(lambda: "copy" in bound(house))
        await house.until(lambda: house.job(2).state == JobState.RUNNING)


def test_a_new_leader_knows_its_pods_by_the_log_again() -> None:
    live(leader_story())


async def leader_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, command=["sleep"])
        await make(house, "other")
        await house.phase("train", "Running")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)
        real = house.stored("/pods")[1]
        await house.world.crash("kubernetes")
        await forge(house, "forged", real)
        house.world.restart("kubernetes")
        await house.until(lambda: free_gpus(house) == 4)
        assert [house.job(k).state for k in (1, 2)] == [JobState.RUNNING] * 2
        assert [house.job(k).attempt for k in (1, 2)] == [1, 1]
