"""Pods that a disruption budget keeps: another job makes way, or it is waited for; nothing goes past a budget."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import JOBS, NAMESPACE, PODS, House, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owner_sizes import apply_elastic, count
from tests.kubernetes.test_owners import KIND, Object, Operator, apply_owner, suspended

from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.faults import Fault

KEPT = "Cannot evict pod as it would violate the pod's disruption budget."
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"


async def budget(house: House, allowed: int, labels: Object, name: str = "b") -> None:
    """Somebody lets so many of these pods go at a time."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    status = {"disruptionsAllowed": allowed}
    await house.ask("POST", BUDGETS, {"metadata": {"name": name}, "spec": spec, "status": status})


async def allow(house: House, allowed: int) -> None:
    """The budget lets another number go."""
    (found,) = house.stored("policy/poddisruptionbudgets")
    await house.ask("PUT", f"{BUDGETS}/b/status", {**found, "status": {"disruptionsAllowed": allowed}})


def words(house: House, reason: str) -> list[str]:
    """Messages of events with this reason."""
    return [one["message"] for one in house.stored("/events", NAMESPACE) if one["reason"] == reason]


def preempting(**more: Any) -> Object:
    """A job that is more important than all others."""
    return {"tasks": 1, "gpus": 1, "priority": 100, "command": ["x"], **more}


def test_another_job_makes_way_for_one_that_a_budget_keeps() -> None:
    live(other_story())


async def other_story() -> None:
    async with opened(nodes=2, gpus=1) as house:
        # Without the budget the younger one would go, as it has less to lose.
        await make(house, "old", gpus=1)
        await house.until(lambda: len(bound(house)) == 1)
        await asyncio.sleep(100)
        await make(house, "kept", labels={"app": "db"})
        await house.until(lambda: len(bound(house)) == 2)
        await budget(house, 0, {"app": "db"})
        await house.until(lambda: not house.job(2).spec.preemptible, 10)
        await house.apply("urgent", **preempting())
        await house.phase("urgent", "Running", 120)
        assert set(bound(house)) & {"old", "kept"} == {"kept"}
        assert not [path for method, path in house.double.requests if method == "DELETE" and path.endswith("/kept")]


def test_a_job_is_kept_only_for_as_long_as_the_budget_says_so() -> None:
    live(freed_story())


async def freed_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "kept", labels={"app": "db"})
        await house.until(lambda: len(bound(house)) == 1)
        await budget(house, 0, {"app": "db"})
        await house.until(lambda: not house.job(1).spec.preemptible, 10)
        await house.apply("urgent", **preempting())
        await asyncio.sleep(60)
        assert set(bound(house)) == {"kept"}
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(60)
        assert set(bound(house)) == {"kept"}, "a new leader knows that the budget is why"
        await allow(house, 1)
        await house.phase("urgent", "Running", 120)
        assert f"{PODS}/kept/eviction" in [path for method, path in house.double.requests if method == "POST"]


def test_who_may_never_be_preempted_stays_so_whatever_budgets_say() -> None:
    live(never_story())


async def never_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        never = {"kai.scheduler/preemptibility": "non-preemptible"}
        await make(house, "kept", labels={"app": "db", **never})
        await house.until(lambda: len(bound(house)) == 1)
        await budget(house, 0, {"app": "db"})
        await asyncio.sleep(10)
        await allow(house, 1)
        await asyncio.sleep(90)
        assert not house.job(1).spec.preemptible


@pytest.mark.parametrize("patience_s", [0.0, 120.0])
def test_a_victim_that_a_budget_keeps_after_all_is_told_and_waited_for(patience_s: float) -> None:
    live(late_story(patience_s))


async def late_story(patience_s: float) -> None:
    async with opened(nodes=2, gpus=1, budget_s=patience_s) as house:
        await make(house, "other", gpus=1)
        await house.until(lambda: len(bound(house)) == 1)
        await asyncio.sleep(100)
        await make(house, "kept", labels={"app": "db"})
        await house.until(lambda: len(bound(house)) == 2)

        def appear(change: Any) -> None:
            """A pod that stays is not told that it will be killed."""
            is_it = change.storage == "/pods" and "gangline.dev/notice" in str(change.after["metadata"])
            assert not is_it or change.after["metadata"]["name"] != "kept" or patience_s, "a kept pod is told nothing"

        house.double.store.listeners.append(appear)
        # Nobody could tell the log in time: the service does not see the budget.
        house.double.faults.add(Fault(method="GET", path="poddisruptionbudgets", status=403, times=10_000))
        house.double.store.hang_up()
        await asyncio.sleep(5)
        await budget(house, 0, {"app": "db"})
        await house.apply("urgent", **preempting())
        await house.until(lambda: bool(words(house, "EvictionWaits")), 60)
        assert "Preempted by job 3" in words(house, "EvictionWaits")[0]
        assert "disruption budget" in words(house, "EvictionWaits")[0]
        await house.phase("urgent", "Running", 300)
        if patience_s:
            return
        assert "kept" in bound(house), "the room came from somebody else"
        assert all(not node.problem for node in house.world.state.kept.nodes.values()), "the node is well"
        house.double.store.listeners.remove(appear)
        await allow(house, 1)
        await house.until(lambda: "kept" not in bound(house), 60)


def test_an_owner_is_not_suspended_past_a_budget() -> None:
    live(owner_story())


async def owner_story() -> None:
    kind = KIND["Job"]
    async with opened(nodes=1, gpus=3) as house:
        Operator(house, kind)
        await apply_owner(house, kind, "train")
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        await budget(house, 2, {})
        await house.until(lambda: not house.job(1).spec.preemptible, 10, "three would go, and two may")
        await house.apply("urgent", **preempting())
        await asyncio.sleep(60)
        assert not suspended(house, kind, "train")
        await allow(house, 3)
        await house.phase("urgent", "Running", 120)
        assert suspended(house, kind, "train")
        assert house.job(1).state == JobState.WAITING
        await asyncio.sleep(30)
        assert house.job(1).id in house.world.state.kept.jobs, "it keeps its place"
        assert house.job(1).state == JobState.WAITING


async def widened(house: House, **more: Any) -> None:
    """An elastic job of ours that has four tasks and may have one."""
    wide = {"tasks": 4, "min": 1, "max": 4, "gpus": 1, "command": ["x"], "elastic": {"kind": "torchrun"}, **more}
    await house.apply("wide", **wide)
    await house.phase("wide", "Running")
    assert len(bound(house)) == 4


def deleted(house: House) -> list[str]:
    """Pods that were deleted without asking anybody."""
    return [path for method, path in house.double.requests if method == "DELETE" and path.startswith(PODS)]


@pytest.mark.parametrize(("allowed", "wanted"), [(1, 1), (2, 2)])
def test_an_elastic_job_gives_as_many_pods_as_its_budget_lets_go_by_evictions(allowed: int, wanted: int) -> None:
    live(smaller_story(allowed, wanted))


async def smaller_story(allowed: int, wanted: int) -> None:
    async with opened(nodes=1, gpus=4) as house:
        await widened(house)
        await budget(house, allowed, {"gangline.dev/job": "1"})
        await house.until(lambda: house.job(1).spec.stays == 4 - allowed, 10)
        await house.apply("next", gpus=wanted, command=["x"])
        await house.phase("next", "Running", 120)
        assert house.job(1).sizes == {"worker": 4 - wanted}
        assert house.job(1).preemptions == 0
        asked = [path for method, path in house.double.requests if path.endswith("/eviction")]
        assert len(set(asked)) == wanted
        assert not deleted(house), "evicted, not deleted"


@pytest.mark.parametrize("is_told", [True, False])
def test_an_elastic_job_gives_no_pod_that_its_budget_keeps(is_told: bool) -> None:
    live(kept_story(is_told))


async def kept_story(is_told: bool) -> None:
    """With `is_told` false nobody could tell the log in time: the eviction alone is refused."""
    async with opened(nodes=1, gpus=4) as house:
        await widened(house, elastic={"kind": "torchrun", "notice": "10s"})
        if not is_told:
            house.double.faults.add(Fault(method="GET", path="poddisruptionbudgets", status=403, times=10_000))
            house.double.store.hang_up()
            await asyncio.sleep(5)
        await budget(house, 0, {"gangline.dev/job": "1"})
        await asyncio.sleep(5)
        await house.apply("next", gpus=1, priority=100, command=["x"])
        await asyncio.sleep(90)
        assert len([pod for pod in house.stored("/pods") if "deletionTimestamp" not in pod["metadata"]]) == 4
        assert not [pod for pod in house.stored("/pods") if "gangline.dev/notice" in pod["metadata"]["annotations"]]
        assert house.status("next")["phase"] == "Waiting"
        told = words(house, "EvictionWaits")
        assert bool(told) != is_told
        if not is_told:
            assert "From 4 tasks to 3 tasks: room for job 2." in told[0]
        await allow(house, 1)
        await house.phase("next", "Running", 180)
        assert house.job(1).sizes == {"worker": 3}
        assert not deleted(house)


def test_who_asks_for_fewer_tasks_of_a_job_asks_no_budget() -> None:
    live(own_story())


async def own_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await widened(house)
        await budget(house, 0, {"gangline.dev/job": "1"})
        await house.until(lambda: house.job(1).spec.stays == 4, 10)
        await house.ask("PATCH", f"{JOBS}/wide", {"spec": {"tasks": 2}}, form="application/merge-patch+json")
        await house.until(lambda: house.job(1).sizes == {"worker": 2} and house.job(1).state == JobState.RUNNING, 90)
        assert len(deleted(house)) == 2
        assert not [path for method, path in house.double.requests if path.endswith("/eviction")]


def test_an_owner_is_not_made_smaller_past_a_budget() -> None:
    live(owner_smaller_story())


async def owner_smaller_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        Operator(house, KIND["Job"])
        await apply_elastic(house, "Job", workers=3)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        house.double.faults.add(Fault(method="POST", path="eviction", status=429, times=10_000, message=KEPT))
        await house.apply("next", gpus=1, command=["x"])
        await asyncio.sleep(90)
        assert count(house, "Job") == 3, "or its controller would take one away, whatever budgets say"
        house.double.faults.waiting.clear()
        await house.phase("next", "Running", 120)
        assert count(house, "Job") == 2
