"""Devices that others were given by ResourceClaims: seen, respected, and never given twice."""

import asyncio
from typing import Any

from tests.kubernetes.house import NAMESPACE, House, Object, opened
from tests.kubernetes.test_devices import offer

from dollhouse.loop import live
from gangline_core.facts import ExitCause, TaskExited
from gangline_core.job import JobState
from kubedouble.store import Change

CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
STORED = "resource.k8s.io/resourceclaims"
MERGE = "application/merge-patch+json"


def indexes(house: House) -> list[int]:
    """GPUs that the log has on the node."""
    return [gpu.index for gpu in house.world.state.kept.nodes["n0"].gpus]


async def claim(house: House, name: str, *devices: str, driver: str = "gpu.nvidia.com", **result: Any) -> Object:
    """The usual scheduler gives somebody's claim these devices."""
    exactly = {"deviceClassName": driver, "count": len(devices)}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    await house.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    results = [{"request": "r", "driver": driver, "pool": "n0", "device": one, **result} for one in devices]
    holder = {"resource": "pods", "name": "other", "uid": f"uid-of-{name}"}
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [holder]}
    made: Object = await house.ask("PATCH", f"{CLAIMS}/{name}/status", {"status": status}, form=MERGE)
    return made


def given(house: House) -> list[str]:
    """Devices of the claims that we made."""
    ours = (one for one in house.stored(STORED) if (one["metadata"].get("labels") or {}).get("gangline.dev/job"))
    results = (one["status"]["allocation"]["devices"]["results"] for one in ours if one.get("status"))
    return sorted(device["device"] for some in results for device in some)


def test_devices_that_others_were_given_are_no_room_until_they_are_given_back() -> None:
    live(room_story())


async def room_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await claim(house, "theirs", "gpu-1")
        await offer(house, "n0", 4)
        await house.until(lambda: indexes(house) == [0, 2, 3])
        await claim(house, "more", "gpu-0", "gpu-2")
        await house.apply("gang", tasks=2, gpus=1, command=["sleep"])
        await house.until(lambda: indexes(house) == [3])
        await asyncio.sleep(10)
        assert given(house) == []
        await house.ask("DELETE", f"{CLAIMS}/more")
        await house.phase("gang", "Running")
        assert len(given(house)) == 2
        assert "gpu-1" not in given(house)


def test_looking_after_devices_and_devices_of_other_drivers_take_no_room() -> None:
    live(admin_story())


async def admin_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 2)
        await house.until(lambda: len(indexes(house)) == 2)
        await claim(house, "exporter", "gpu-0", "gpu-1", adminAccess=True)
        await claim(house, "network", "gpu-0", driver="nic.example.org")
        await house.apply("all", gpus=2, command=["sleep"])
        await house.phase("all", "Running")


def test_a_device_that_another_scheduler_gave_away_first_undoes_the_gang_whole() -> None:
    live(raced_story("gpu-0"))


def test_an_allocation_that_another_scheduler_writes_just_before_ours_is_found_after_ours() -> None:
    live(raced_story("gpu-1"))


async def raced_story(wanted: str) -> None:
    """Somebody else allocates a device while our gang of two is being started."""
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 6)
        await house.until(lambda: len(indexes(house)) == 6)
        raced: list[Object] = []

        def race(change: Change) -> None:
            """The other scheduler is faster by a moment, with a device that is ours in the log by now."""
            is_ours = change.storage == STORED and (change.after["metadata"].get("labels") or {}).get(
                "gangline.dev/job"
            )
            if raced or not is_ours or change.verb != "ADDED":
                return
            kind = house.double.kinds.find("resource.k8s.io", "v1", "resourceclaims")
            assert kind is not None
            spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
            made = house.double.verbs.create(kind, NAMESPACE, {"metadata": {"name": "faster"}, "spec": spec})
            result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "n0", "device": wanted}
            holder = {"resource": "pods", "name": "other", "uid": "uid-of-another"}
            status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [holder]}
            raced.append(house.double.store.put(STORED, {**made, "status": status}, made))

        house.double.store.listeners.append(race)
        await house.apply("gang", tasks=2, gpus=2, command=["sleep"])
        await house.until(lambda: bool(raced) and house.job(1).attempt > 1, within_s=60)
        await house.until(lambda: house.job(1).state == JobState.RUNNING, within_s=120)
        (theirs,) = raced
        taken = theirs["status"]["allocation"]["devices"]["results"][0]["device"]
        assert taken not in given(house)
        assert len(given(house)) == 4
        assert len(await house.pods()) == 2, "of the first attempt nothing is left"
        exits = [fact for fact in house.facts if isinstance(fact, TaskExited)]
        assert any(fact.cause == ExitCause.PLACE_REFUSED and "faster" in fact.error for fact in exits)


def test_a_device_that_is_given_away_after_ours_was_bound_moves_only_what_has_not_begun() -> None:
    live(after_story())


async def after_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 3)
        await house.until(lambda: len(indexes(house)) == 3)
        await house.apply("runs", gpus=1, command=["sleep"])
        await house.phase("runs", "Running")
        (mine,) = given(house)
        await claim(house, "blind", mine)
        await asyncio.sleep(10)
        assert house.job(1).state == JobState.RUNNING, "the kubelet judges what it prepared already"
        (pod,) = await house.pods()
        house.kubelets.finish(pod, 0)
        await house.phase("runs", "Succeeded")
        await house.until(lambda: len(indexes(house)) == 2)


def test_a_device_of_ours_that_is_on_its_way_back_is_waited_for_and_moves_nothing() -> None:
    live(handover_story())


async def handover_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 1)
        await house.until(lambda: len(indexes(house)) == 1)
        for name in ("a", "b", "c"):
            await house.apply(name, gpus=1, command=["sleep"])
        for name in ("a", "b", "c"):
            await house.phase(name, "Running")
            pod = next(one for one in await house.pods() if one["status"]["phase"] == "Running")
            house.kubelets.finish(pod, 0)
            await house.phase(name, "Succeeded")
        assert [house.job(k).attempt for k in (1, 2, 3)] == [1, 1, 1]
        await house.until(lambda: not house.stored(STORED))


def test_a_watch_of_claims_that_does_not_follow_binds_nothing() -> None:
    live(deaf_story())


async def deaf_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 1)
        await house.until(lambda: len(indexes(house)) == 1)
        house.double.faults.flowing.clear()
        await house.apply("train", gpus=1, command=["sleep"])
        await asyncio.sleep(20)
        assert not any(pod["spec"].get("nodeName") for pod in await house.pods())
        house.double.faults.flowing.set()
        await house.phase("train", "Running", within_s=120)
