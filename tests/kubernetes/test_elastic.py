"""Elastic jobs on a cluster: pods come and go with the size, are told before they leave, and the object says it."""

import asyncio
from typing import Any

import msgspec
from tests.kubernetes.house import JOBS, NAMESPACE, House, condition, opened

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_wire.requests import SetSize

Object = dict[str, Any]
TORCHRUN = {"kind": "torchrun", "notice": "20s"}


async def elastic(house: House, name: str, **more: Any) -> Object:
    """An elastic job of one GPU per task, between one and eight of them."""
    spec = {"tasks": 2, "min": 1, "max": 8, "gpus": 1, "command": ["torchrun"], "elastic": TORCHRUN, **more}
    await house.apply(name, **spec)
    return await house.phase(name, "Running")


def now_ms() -> int:
    """Virtual time."""
    return int(asyncio.get_running_loop().time() * 1000)


def environment(pod: Object) -> dict[str, str]:
    """Plain values of a pod's environment."""
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


def size_told(pod: Object) -> Object:
    """What the pod's size file holds."""
    found: Object = msgspec.json.decode(pod["metadata"]["annotations"]["gangline.dev/size"])
    return found


def living(house: House) -> list[Object]:
    """Pods that were not told to go, by rank."""
    pods = [pod for pod in house.stored("/pods") if "deletionTimestamp" not in pod["metadata"]]
    return sorted(pods, key=lambda pod: int(environment(pod)["RANK"]))


def test_a_job_grows_into_free_gpus_and_its_pods_know_the_new_size() -> None:
    live(growth_story())


async def growth_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await house.apply("first", gpus=2, command=["sleep"])
        await house.phase("first", "Running")
        await elastic(house, "train")
        before = [pod["metadata"]["uid"] for pod in await house.pods(**{"gangline.dev/job": "2"})]
        assert len(before) == 2
        (blocker,) = await house.pods(**{"gangline.dev/job": "1"})
        house.kubelets.finish(blocker, 0)
        await house.until(lambda: house.job(2).sizes == {"worker": 4} and house.job(2).state == JobState.RUNNING)
        pods = [pod for pod in living(house) if pod["metadata"]["labels"]["gangline.dev/job"] == "2"]
        assert {pod["metadata"]["uid"] for pod in pods} > set(before), "members that stay are the same pods"
        assert [environment(pod)["PET_NNODES"] for pod in pods] == ["1:8"] * 4
        endpoints = {environment(pod)["PET_RDZV_ENDPOINT"].rpartition(":")[0] for pod in pods}
        assert endpoints == {f"{pods[0]['spec']['hostname']}.gangline-job-2.{NAMESPACE}.svc"}
        await house.until(lambda: all(size_told(pod)["size"] == 4 for pod in living(house)[1:]))
        await house.until(lambda: house.status("train")["tasks"]["running"] == 4)
        assert house.status("train")["tasks"]["wanted"] == 4
        found = condition(await house.object("train"), "Resizing")
        assert (found["status"], found["reason"]) == ("False", "Settled")
        assert found["message"].startswith("From 2 tasks to 4 tasks")
        assert "Resizing" in {event["reason"] for event in house.stored("/events")}


def test_a_member_that_leaves_is_told_and_has_its_notice_before_it_is_deleted() -> None:
    live(notice_story())


async def notice_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await elastic(house, "train", tasks=4, grace="5s")
        await house.apply("next", gpus=1, command=["sleep"])
        await house.until(lambda: house.job(1).state == JobState.RESIZING)
        told_ms = now_ms()
        await house.until(lambda: "gangline.dev/notice" in living(house)[-1]["metadata"]["annotations"], 5)
        leaver = living(house)[-1]
        assert environment(leaver)["RANK"] == "3", "the last to come leaves"
        assert (size_told(leaver)["leaves"], size_told(leaver)["leave_s"]) == (True, 20)
        found = await house.phase("train", "Resizing")
        assert condition(found, "Resizing")["status"] == "True"
        assert condition(found, "Resizing")["message"] == "From 4 tasks to 3 tasks: room for job 2."
        await house.until(lambda: len([pod for pod in living(house) if "train" in pod["metadata"]["name"]]) == 3)
        assert 19_000 <= now_ms() - told_ms <= 22_000
        await house.phase("next", "Running")
        await house.until(lambda: all(size_told(pod)["size"] == 3 for pod in living(house) if pod_is(pod, "train")))
        assert house.job(1).attempt == 1
        assert house.job(1).preemptions == 0


def pod_is(pod: Object, job: str) -> bool:
    """True for a pod of the Job object of that name."""
    return any(one["name"] == job for one in pod["metadata"].get("ownerReferences") or ())


def test_a_member_that_saved_and_ended_by_itself_is_not_waited_for() -> None:
    live(early_story())


async def early_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await elastic(house, "train", tasks=4, elastic={"kind": "torchrun", "notice": "10m"})
        await house.apply("next", gpus=1, command=["sleep"])
        await house.until(lambda: "gangline.dev/notice" in living(house)[-1]["metadata"]["annotations"])
        house.kubelets.finish(living(house)[-1], 0)
        await house.phase("next", "Running", within_s=10)
        assert house.job(1).state == JobState.RUNNING


def test_a_new_leader_goes_on_counting_a_notice() -> None:
    live(handover_story())


async def handover_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await elastic(house, "train", tasks=4)
        await house.apply("next", gpus=1, command=["sleep"])
        await house.until(lambda: house.job(1).state == JobState.RESIZING)
        told_ms = now_ms()
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await house.phase("next", "Running", within_s=90)
        assert now_ms() - told_ms < 40_000


def test_a_gang_whose_word_is_asked_for_says_it_by_being_ready() -> None:
    live(ready_story())


async def ready_story() -> None:
    slow = {"kind": "torchrun", "confirm": "2m"}
    async with opened(nodes=1, gpus=4, life=ready_late) as house:
        await house.apply("first", gpus=2, command=["sleep"])
        await house.phase("first", "Running")
        await elastic(house, "train", elastic=slow)
        (blocker,) = await house.pods(**{"gangline.dev/job": "1"})
        house.kubelets.finish(blocker, 0)
        await house.until(lambda: house.job(2).sizes == {"worker": 4})
        await house.until(lambda: house.status("train")["tasks"]["running"] == 4)
        assert house.job(2).state == JobState.RESIZING, "its new pods run and are not ready"
        await house.until(lambda: house.job(2).state == JobState.RUNNING)
        assert house.job(2).attempt == 1


def ready_late(pod: Object) -> Any:
    """Every pod needs a while to be ready."""
    from kubedouble.kubelet import Life

    return Life(ready_s=15.0)


def test_a_size_asked_for_by_hand_is_given_and_kept() -> None:
    live(asked_story())


async def asked_story() -> None:
    async with opened(nodes=1, gpus=8) as house:
        await elastic(house, "train")
        await house.until(lambda: house.job(1).sizes == {"worker": 8} and house.job(1).state == JobState.RUNNING)
        await house.world.ask(SetSize(job=1, size=3, by="ann"))
        await house.until(lambda: house.job(1).sizes == {"worker": 3} and house.job(1).state == JobState.RUNNING)
        await house.until(lambda: len(living(house)) == 3)
        assert [environment(pod)["RANK"] for pod in living(house)] == ["0", "1", "2"]


def test_a_job_that_starts_again_to_change_its_size_keeps_its_places() -> None:
    live(restart_story())


async def restart_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await elastic(house, "train", elastic={"kind": "restart"})
        await house.world.ask(SetSize(job=1, size=4, by="ann"))
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        assert house.job(1).sizes == {"worker": 4}
        pods = living(house)
        assert {environment(pod)["WORLD_SIZE"] for pod in pods} == {"4"}
        assert {environment(pod)["GANGLINE_JOB_ATTEMPT"] for pod in pods} == {"2"}


def test_scaling_the_object_asks_for_a_size() -> None:
    live(scale_story())


async def scale_story() -> None:
    async with opened(nodes=1, gpus=8) as house:
        await elastic(house, "train", min=2)
        await house.until(lambda: house.job(1).sizes == {"worker": 8} and house.job(1).state == JobState.RUNNING)
        scale = await house.ask("GET", f"{JOBS}/train/scale")
        assert scale["spec"]["replicas"] == 2
        scale["spec"]["replicas"] = 5
        await house.ask("PUT", f"{JOBS}/train/scale", scale)
        await house.until(lambda: house.job(1).sizes == {"worker": 5} and house.job(1).state == JobState.RUNNING)
        await house.until(lambda: house.status("train")["observedGeneration"] == 2)
        await house.until(lambda: house.status("train")["tasks"]["placed"] == 5)
        assert (await house.ask("GET", f"{JOBS}/train/scale"))["status"]["replicas"] == 5
        scale["spec"]["replicas"] = 1
        del scale["metadata"]["resourceVersion"]
        await house.ask("PUT", f"{JOBS}/train/scale", scale)
        await house.until(lambda: "SizeRefused" in {event["reason"] for event in house.stored("/events")})
        assert house.job(1).sizes == {"worker": 5}
