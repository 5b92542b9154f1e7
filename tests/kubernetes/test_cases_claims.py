"""Public reports about cards that go and come, where ResourceClaims say which device a pod has."""

import asyncio

import pytest
from tests.kubernetes.house import House, opened
from tests.kubernetes.test_cases import running
from tests.kubernetes.test_devices import SLICES, offer
from tests.kubernetes.test_offers import devices_of, held, publish

from dollhouse.loop import live
from gangline_core.job import JobState


def devices(house: House, name: str) -> set[str]:
    """Devices of a Job object's pods."""
    return {device for claim, found in held(house).items() if claim.startswith(name) for device in found}


async def ready(house: House, count: int) -> None:
    """The log knows so many GPUs of the node."""
    await offer(house, "n0", count)
    await house.until(lambda: len(house.world.state.kept.nodes["n0"].gpus) == count)


def test_devices_that_die_below_a_running_job_are_nobodys_room() -> None:
    """K05 volcano-sh/volcano#1818: two of eight leave the slice, and an unrelated update hides nothing."""
    live(shrunk_story())


async def shrunk_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await ready(house, 8)
        await house.apply("j0", gpus=8, command=["x"])
        await house.phase("j0", "Running")
        left = [one for one in devices_of(house) if one["name"] not in ("gpu-2", "gpu-5")]
        await publish(house, left, 2)
        await asyncio.sleep(2)
        house.kubelets.change_node("n0", lambda node: {**node, "metadata": {**node["metadata"], "annotations": {}}})
        await house.apply("j1", gpus=6, command=["x"])
        for name in ("placement", "kubernetes"):
            await house.world.crash(name)
            house.world.restart(name)
        await asyncio.sleep(30)
        assert running(house, "j1") == 0
        assert running(house, "j0") == 1, "a difference between what is there and what is in use kills nothing"
        assert house.job(2).state == JobState.WAITING
        (pod,) = await house.pods(**{"gangline.dev/job": "1"})
        house.kubelets.finish(pod, 0)
        await house.phase("j1", "Running", 120)
        assert devices(house, "j1") == {one["name"] for one in left}, "and no dead one"


@pytest.mark.parametrize("comes_back", [8, 7, 0])
def test_a_slice_that_blinks_evicts_nothing_and_places_nothing(comes_back: int) -> None:
    """K11 armadaproject/armada#4390: the driver restarts and its slice is gone for ten seconds, or for good."""
    live(blink_story(comes_back))


async def blink_story(comes_back: int) -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await ready(house, 8)
        await house.apply("wide", gpus=4, command=["x"])
        for number in range(3):
            await house.apply(f"s{number}", gpus=1, command=["x"])
        for name in ("wide", "s0", "s1", "s2"):
            await house.phase(name, "Running")
        taken = {device for found in held(house).values() for device in found}
        assert len(taken) == 7
        await house.ask("DELETE", f"{SLICES}/n0-gpus")
        await asyncio.sleep(1)
        await house.apply("j", gpus=1, command=["x"])
        await asyncio.sleep(9)
        assert running(house, "j") == 0, "nothing new while more is in use than there is"
        if comes_back:
            await offer(house, "n0", comes_back)
        if comes_back == 8:
            await house.phase("j", "Running")
            assert devices(house, "j") == {f"gpu-{k}" for k in range(8)} - taken
        await asyncio.sleep(120)
        assert running(house, "j") == (comes_back == 8)
        assert {house.job(number).attempt for number in range(1, 5)} == {1}
        assert all(house.job(number).state == JobState.RUNNING for number in range(1, 5)), "a count kills nothing"
