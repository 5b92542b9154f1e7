"""Objects of others whose number of pods may change: they grow into free GPUs and shrink for others, pod by pod."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import House, opened
from tests.kubernetes.test_owners import KIND, QUEUED, Operator, define, path, template

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.objects import Meta, OwnerObject
from gangline_kubernetes.owner_kinds import parts_of
from gangline_kubernetes.owner_sizes import bounds_of, resized, wishes

Object = dict[str, Any]
BOUNDS = {"gangline.dev/min-size": "1", "gangline.dev/max-size": "4", "gangline.dev/notice-seconds": "10"}


def elastic_spec(name: str, *, workers: int = 2) -> Object:
    """A suspended owner of so many pods that may be one to four."""
    if name == "Job":
        sizes = {"completionMode": "Indexed", "completions": workers, "parallelism": workers}
        return {"suspend": True, **sizes, "template": template()}
    if name == "PyTorchJob":
        worker = {"Worker": {"replicas": workers, "template": template()}}
        policy = {"minReplicas": 1, "maxReplicas": 4}
        return {"runPolicy": {"suspend": True}, "elasticPolicy": policy, "pytorchReplicaSpecs": worker}
    group = {"groupName": "gpu", "replicas": workers, "minReplicas": 1, "maxReplicas": 4, "template": template()}
    return {"suspend": True, "headGroupSpec": {"template": template(gpus=0)}, "workerGroupSpecs": [group]}


def notes_of(name: str) -> Object:
    """How each kind says that it may change its size."""
    match name:
        case "Job":
            return BOUNDS
        case "PyTorchJob":
            return {}
        case _:
            return {"kueue.x-k8s.io/elastic-job": "true"}


async def apply_elastic(house: House, name: str, **more: Any) -> None:
    """Somebody makes such an owner."""
    kind = KIND[name]
    await define(house, kind)
    meta = {"name": "train", "labels": QUEUED, "annotations": notes_of(name)}
    await house.ask("POST", path(kind), {"metadata": meta, "spec": elastic_spec(name, **more)})


def count(house: House, name: str) -> int:
    """How many worker pods the owner wants."""
    found = house.stored(f"{KIND[name].group_version.partition('/')[0]}/{KIND[name].plural}")[0]
    part = parts_of(KIND[name], OwnerObject(metadata=Meta(), spec=found["spec"]))[-1]
    return part.count


def bound_pods(house: House) -> list[Object]:
    """Pods of the owner that have a node and were not told to go."""
    pods = [pod for pod in house.stored("/pods") if pod["metadata"]["name"].startswith("train")]
    return [pod for pod in pods if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]


def indexes(house: House) -> list[int]:
    """Indexes of the worker pods that run."""
    found = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in bound_pods(house)]
    return sorted(map(int, found))


@pytest.mark.parametrize("name", ["Job", "PyTorchJob", "RayCluster"])
def test_an_elastic_owner_grows_into_free_gpus_and_shrinks_for_others(name: str) -> None:
    live(sizes_story(name))


async def sizes_story(name: str) -> None:
    async with opened(nodes=1, gpus=4) as house:
        Operator(house, KIND[name])
        await house.apply("first", gpus=2, command=["sleep"])
        await house.phase("first", "Running")
        await apply_elastic(house, name)
        await house.until(lambda: house.job(2).state == JobState.RUNNING, 120)
        heads = int(name == "RayCluster")
        before = {pod["metadata"]["uid"] for pod in bound_pods(house)}
        assert len(before) == 2 + heads
        (blocker,) = await house.pods(**{"gangline.dev/job": "1"})
        house.kubelets.finish(blocker, 0)
        await house.until(lambda: len(bound_pods(house)) == 4 + heads and house.job(2).state == JobState.RUNNING)
        assert count(house, name) == 4
        assert before < {pod["metadata"]["uid"] for pod in bound_pods(house)}, "members that stay are the same pods"
        await house.apply("next", gpus=1, command=["sleep"])
        await house.phase("next", "Running")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)
        assert count(house, name) == 3
        assert indexes(house)[heads:] == [0, 1, 2]
        assert house.job(2).attempt == 1
        await asyncio.sleep(30)
        assert len(bound_pods(house)) == 3 + heads, "its controller makes nothing anew"


def test_an_owner_that_starts_with_less_room_starts_smaller() -> None:
    live(small_story())


async def small_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        Operator(house, KIND["Job"])
        await apply_elastic(house, "Job", workers=3)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        assert house.job(1).sizes == {"pods": 1}
        (job,) = house.stored("batch/jobs")
        assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (1, 1)
        house.kubelets.add_node("n1", gpus=2)
        await house.until(lambda: indexes(house) == [0, 1, 2], 90)
        assert house.job(1).attempt == 1


def test_whoever_changes_the_number_of_pods_asks_for_that_size() -> None:
    live(wish_story())


async def wish_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        Operator(house, KIND["Job"])
        await apply_elastic(house, "Job")
        await house.until(lambda: indexes(house) == [0, 1, 2, 3] and house.job(1).state == JobState.RUNNING)
        body = {"spec": {"parallelism": 2, "completions": 2}}
        await house.ask("PATCH", f"{path(KIND['Job'])}/train", body, "application/merge-patch+json")
        await house.until(lambda: house.job(1).asked == {"pods": 2})
        await house.until(lambda: indexes(house) == [0, 1] and house.job(1).state == JobState.RUNNING)
        assert house.job(1).attempt == 1
        await asyncio.sleep(60)
        assert indexes(house) == [0, 1], "it keeps to what was asked for"


def test_what_may_not_change_has_one_size() -> None:
    owner = OwnerObject(metadata=Meta(annotations=BOUNDS), spec={"parallelism": 3, "completions": 9})
    kind = KIND["Job"]
    assert bounds_of(kind, owner, parts_of(kind, owner)) == [(3, 3)], "pods of a plain Job are not told apart"
    owner = OwnerObject(metadata=Meta(annotations={"gangline.dev/max-size": "2"}), spec=elastic_spec("Job", workers=3))
    assert bounds_of(kind, owner, parts_of(kind, owner)) == [(3, 3)], "the bounds do not hold its size"
    ray = OwnerObject(metadata=Meta(), spec=elastic_spec("RayCluster"))
    kind = KIND["RayCluster"]
    assert bounds_of(kind, ray, parts_of(kind, ray)) == [(1, 1), (2, 2)], "nobody said that the bounds are for us"


def test_a_number_that_we_gave_is_nobodys_wish() -> None:
    kind, spec = KIND["Job"], elastic_spec("Job", workers=3)
    owner = OwnerObject(metadata=Meta(annotations=BOUNDS), spec=spec)
    parts = parts_of(kind, owner)
    patch = resized(kind, owner, parts, {0: 2})
    assert patch["spec"] == {"parallelism": 2, "completions": 2}
    given = OwnerObject(
        metadata=Meta(annotations={**BOUNDS, **patch["metadata"]["annotations"]}), spec={**spec, **patch["spec"]}
    )
    parts = parts_of(kind, given)
    assert wishes(given, parts, bounds_of(kind, given, parts), [3]) == [0]
    assert wishes(owner, parts_of(kind, owner), [(1, 4)], [2]) == [3], "it was admitted with two"
