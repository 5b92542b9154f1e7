"""What owners of suspended objects are told on the cluster: number, reason and events of their job."""

import asyncio
from typing import Any

from tests.kubernetes.house import NAMESPACE, House, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owners import KIND, Operator, apply_owner

from dollhouse.loop import live
from gangline_core.groups import Group
from gangline_core.job import JobState
from gangline_wire.requests import SetGroup

Object = dict[str, Any]


def notes(house: House, name: str = "train") -> dict[str, str]:
    """Annotations of a Job of the cluster."""
    found = house.double.store.get("batch/jobs", NAMESPACE, name) or {"metadata": {}}
    return found["metadata"].get("annotations") or {}


def events(house: House, name: str = "train") -> list[tuple[str, str]]:
    """Reason and message of every event about it."""
    told = [one for one in house.stored("/events", NAMESPACE) if one["involvedObject"]["name"] == name]
    return [(one["reason"], one["message"]) for one in told]


def test_an_owner_that_waits_is_told_why_and_then_that_it_runs() -> None:
    live(waiting_story())


async def waiting_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        Operator(house, KIND["Job"])
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await apply_owner(house, KIND["Job"], "train")
        await house.until(lambda: notes(house).get("gangline.dev/reason", "").startswith("InsufficientGpus: "), 30)
        assert notes(house)["gangline.dev/job-number"] == "2"
        waits = [message for reason, message in events(house) if reason == "InsufficientGpus"]
        assert len(waits) == 1
        assert "GPU" in waits[0]
        kinds = {one["involvedObject"]["kind"] for one in house.stored("/events", NAMESPACE)}
        assert kinds == {"Job"}
        await asyncio.sleep(200)
        assert len([one for one in events(house) if one[0] == "InsufficientGpus"]) == 1, "no storm while it waits"
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: notes(house)["gangline.dev/reason"] == "Running")
        assert events(house)[-1][0] == "Running"


def test_an_owner_is_told_of_limits_and_of_whom_it_makes_way_for() -> None:
    live(way_story())


async def way_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        Operator(house, KIND["Job"])
        await house.world.ask(SetGroup(group=Group(path="lab", limit={"gpu_milli": 3000}), by="root"))
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await apply_owner(house, KIND["Job"], "train")
        await house.until(lambda: notes(house).get("gangline.dev/reason", "").startswith("QuotaHeld: "), 30)
        await house.world.ask(SetGroup(group=Group(path="lab", limit={"gpu_milli": 9000}), by="root"))
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)
        await house.apply("urgent", tasks=1, gpus=3, priority=100, command=["x"])
        await house.phase("urgent", "Running", 120)
        await house.until(lambda: any(reason == "Preempted" and "job 3" in text for reason, text in events(house)))


def test_a_new_leader_tells_nothing_twice() -> None:
    live(leader_story())


async def leader_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await apply_owner(house, KIND["Job"], "train")
        await house.until(lambda: bool(notes(house).get("gangline.dev/reason")))
        await asyncio.sleep(70)
        before = events(house)
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(30)
        assert events(house) == before
