"""Owners whose parts start one after the other: JobSets with an order, MPIJobs whose launcher waits for workers."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import PODS, House, opened
from tests.kubernetes.test_adopted import bound
from tests.kubernetes.test_owner_words import events
from tests.kubernetes.test_owners import KIND, QUEUED, define, path, suspended, template

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.objects import Meta, OwnerObject
from gangline_kubernetes.stages import is_staged

Object = dict[str, Any]
SET = KIND["JobSet"]
DEPENDS: Object = {"dependsOn": [{"name": "first", "status": "Complete"}]}
ORDERED: Object = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def shape(first: int = 1, second: int = 2, *, depends: bool = True, **more: Any) -> Object:
    """A set of two parts of so many pods; the second waits for the first."""

    def inner(count: int) -> Object:
        indexed = {"parallelism": count, "completions": count, "completionMode": "Indexed"}
        return {"spec": {**indexed, "template": template()}}

    parts: list[Object] = [
        {"name": "first", "replicas": 1, "template": inner(first)},
        {"name": "second", "replicas": 1, "template": inner(second), **(DEPENDS if depends else {})},
    ]
    return {"replicatedJobs": parts, **more}


async def make_pod(house: House, owner: Object, part: str, index: int) -> None:
    """What the set's controller makes, through its inner Job."""
    meta = owner["metadata"]
    above = {"apiVersion": SET.group_version, "kind": "JobSet", "name": meta["name"], "uid": meta["uid"]}
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": part, "jobset.sigs.k8s.io/job-index": "0"}
    body = {
        "metadata": {
            "name": f"{meta['name']}-{part}-{index}",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{**above, "controller": True}],
        },
        "spec": template()["spec"],
    }
    await house.ask("POST", PODS, body)


def test_each_part_of_a_set_that_is_not_suspended_is_a_gang() -> None:
    live(parts_story())


async def parts_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await define(house, SET)
        await asyncio.sleep(61)
        owner = await house.ask("POST", path(SET), {"metadata": {"name": "js"}, "spec": shape()})
        await make_pod(house, owner, "first", 0)
        await house.until(lambda: bound(house) == {"js-first-0": "n0"}, 20, "pods of the second part come only later")
        house.kubelets.finish_named("team", "js-first-0")
        await make_pod(house, owner, "second", 0)
        await asyncio.sleep(20)
        assert "js-second-0" not in bound(house), "its part has two pods, which start together"
        await make_pod(house, owner, "second", 1)
        await house.until(lambda: {"js-second-0", "js-second-1"} <= set(bound(house)), 30)
        assert house.job(1).state == JobState.SUCCEEDED


@pytest.mark.parametrize("order", [{"depends": True}, {"depends": False, **ORDERED}])
def test_a_suspended_set_with_an_order_is_told_what_to_do_and_holds_no_gpus(order: Object) -> None:
    live(refused_story(order))


async def refused_story(order: Object) -> None:
    async with opened(nodes=1, gpus=4) as house:
        await define(house, SET)
        body = {"metadata": {"name": "js", "labels": QUEUED}, "spec": {"suspend": True, **shape(**order)}}
        await house.ask("POST", path(SET), body)
        await house.until(lambda: any("start one after the other" in text for _, text in events(house, "js")), 90)
        assert suspended(house, SET, "js")
        assert not house.world.state.kept.jobs


def test_only_what_has_an_order_has_stages() -> None:
    def staged(kind: str, spec: Object) -> bool:
        return is_staged(KIND[kind], OwnerObject(metadata=Meta(), spec=spec))

    assert staged("JobSet", shape())
    assert staged("JobSet", shape(depends=False, **ORDERED))
    assert not staged("JobSet", shape(depends=False))
    assert not staged("JobSet", {"replicatedJobs": shape()["replicatedJobs"][:1], **ORDERED})
    assert staged("MPIJob", {"launcherCreationPolicy": "WaitForWorkersReady"})
    assert not staged("MPIJob", {"launcherCreationPolicy": "AtStartup"})
    assert not staged("JobSet", {"replicatedJobs": ["x", None], "startupPolicy": "x"})
