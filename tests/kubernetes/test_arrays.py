"""A Job object with an array: one object for all elements, counted, held and ended together."""

import asyncio

from tests.kubernetes.house import JOBS, NAMESPACE, House, condition, opened

from dollhouse.loop import live
from gangline_core.job import ENDS, JobState


def test_an_array_is_complete_when_all_of_its_elements_are() -> None:
    live(complete_story())


async def complete_story() -> None:
    async with opened(nodes=1, gpus=8) as house:
        await house.apply("arr", tasks=1, gpus=1, command=["x"], array="0-3")
        await house.until(lambda: house.status("arr")["tasks"]["running"] == 4)
        status = house.status("arr")
        assert status["tasks"] == {"wanted": 4, "placed": 4, "running": 4, "ended": 0}
        assert (status["job"], status["phase"], status["gpus"]) == (1, "Running", 4)
        first, *rest = await house.pods()
        house.kubelets.finish(first, 0)
        await house.until(lambda: house.status("arr")["tasks"]["ended"] == 1)
        found = await house.object("arr")
        assert found["status"]["phase"] == "Running"
        assert condition(found, "Complete")["status"] == "False", "three of four run"
        for pod in rest:
            house.kubelets.finish(pod, 0)
        found = await house.phase("arr", "Succeeded")
        assert condition(found, "Complete")["status"] == "True"
        assert found["status"]["tasks"]["ended"] == 4


def test_an_array_with_a_failed_element_failed() -> None:
    live(failed_story())


async def failed_story() -> None:
    async with opened(nodes=1, gpus=8) as house:
        await house.apply("arr", tasks=1, gpus=1, command=["x"], array="0-1", retries=0)
        await house.until(lambda: house.status("arr")["tasks"]["running"] == 2)
        one, other = await house.pods()
        house.kubelets.finish(one, 3)
        house.kubelets.finish(other, 0)
        found = await house.phase("arr", "Failed")
        assert condition(found, "Failed")["status"] == "True"


def test_a_deleted_array_ends_with_all_its_elements_before_its_object_goes() -> None:
    live(deleted_story())


def is_there(house: House) -> bool:
    """Whether the object is there."""
    return house.double.store.get("gangline.dev/jobs", NAMESPACE, "arr") is not None


async def deleted_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await house.apply("arr", tasks=1, gpus=1, command=["x"], array="0-9")
        await house.until(lambda: house.status("arr")["tasks"]["running"] == 2)
        await house.ask("DELETE", f"{JOBS}/arr")
        assert is_there(house), "elements of it run"
        await house.until(lambda: not is_there(house))
        state = house.world.state
        assert state.kept.arrays[min(state.kept.arrays)].ended_ms
        assert all(job.state == JobState.CANCELLED for job in state.kept.jobs.values())
        await asyncio.sleep(120)
        assert not [job for job in state.kept.jobs.values() if job.state not in ENDS], "nothing starts again"
        assert not await house.pods()


def test_holding_the_object_holds_the_array_and_a_new_leader_knows_it() -> None:
    live(held_story())


async def held_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await house.apply("arr", tasks=1, gpus=1, command=["x"], array="0-3", hold=True)
        await house.phase("arr", "Held")
        assert not await house.pods()
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        patch = {"spec": {"hold": False}}
        await house.ask("PATCH", f"{JOBS}/arr", patch, "application/merge-patch+json")
        await house.until(lambda: house.status("arr")["tasks"]["running"] == 2)
        assert house.status("arr")["job"] == 1


def test_an_element_that_others_wait_for_is_named_as_people_write_it() -> None:
    live(waited_for_story())


async def waited_for_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await house.apply("arr", tasks=1, gpus=1, command=["x"], array="5-6")
        await house.until(lambda: house.status("arr")["tasks"]["running"] == 2)
        await house.apply("late", tasks=1, gpus=1, command=["x"], after=["1_6"])
        await house.until(lambda: house.status("late").get("reason") == "Dependency")
        assert house.status("late")["message"] == "Waits for job 1_6 to end."
        assert condition(await house.object("late"), "Placed")["message"] == "Waits for job 1_6 to end."
        assert "Waits for job 1_6 to end." in [event["message"] for event in house.stored("/events")]
