"""Pods that another scheduler binds: made with our gate, so that none of them is anywhere but where the log has it."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import CRDS, NAMESPACE, PODS, House, opened
from tests.kubernetes.test_adopted import bound
from tests.kubernetes.test_owners import KIND, QUEUED, Object, Operator, define, path, spec_of, suspended, template

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.places import pointed
from kubedouble.scheduler import DefaultScheduler

DEFAULT = "default-scheduler"
JOB = KIND["Job"]


async def owner(house: House, kind: str, spec: Object) -> None:
    """Somebody makes an owner with a queue's name on it."""
    await house.ask("POST", path(KIND[kind]), {"metadata": {"name": "t", "labels": QUEUED}, "spec": spec})


def used(house: House) -> int:
    """GPU thousandths that the group has."""
    return int(house.world.state.usage.get("lab", {}).get("gpu_milli", 0))


def placed(house: House) -> dict[str, str]:
    """Node of each task's pod, as the log has it."""
    tasks = house.world.state.kept.tasks
    notes = {pod["metadata"]["name"]: pod["metadata"].get("annotations") or {} for pod in house.stored("/pods")}
    return {
        name: str(tasks[one["gangline.dev/task"]].node) for name, one in notes.items() if "gangline.dev/task" in one
    }


@pytest.mark.parametrize("name", ["Job", "JobSet", "PyTorchJob", "RayCluster"])
@pytest.mark.parametrize("choose", [min, max])
def test_another_scheduler_binds_each_pod_where_the_log_has_it(name: str, choose: Any) -> None:
    live(held_story(name, choose))


async def held_story(name: str, choose: Any) -> None:
    kind = KIND[name]
    async with opened(nodes=2, gpus=2) as house:
        await define(house, kind)
        Operator(house, kind)
        others = DefaultScheduler(house.double, choose)
        await owner(house, name, spec_of(name, scheduler=DEFAULT))
        await house.until(lambda: bool(house.world.state.kept.jobs) and house.job(1).state == JobState.RUNNING, 120)
        assert bound(house) == placed(house) == others.bound
        assert house.job(1).attempt == 1, "nothing had to be done twice"
        for pod in bound(house):
            house.kubelets.finish_named(NAMESPACE, pod)
        await house.until(lambda: house.job(1).state == JobState.SUCCEEDED)


def test_every_completion_of_a_job_counts_though_another_scheduler_binds_it() -> None:
    live(completions_story())


async def completions_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        DefaultScheduler(house.double)
        indexed = {"completionMode": "Indexed", "completions": 4, "parallelism": 2}
        await owner(house, "Job", {"suspend": True, **indexed, "template": template(scheduler=DEFAULT)})
        await house.until(lambda: not suspended(house, JOB, "t"))
        (found,) = house.stored("batch/jobs")
        for index in range(4):
            if index == 2:
                await house.until(lambda: len(bound(house)) == 2)
            above = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": found["metadata"]["uid"]}
            notes = {"batch.kubernetes.io/job-completion-index": str(index)}
            meta = {"name": f"late-{index}", "annotations": notes, "ownerReferences": [{**above, "controller": True}]}
            spec = found["spec"]["template"]["spec"]
            await house.ask("POST", PODS, {"metadata": meta, "spec": spec})
        await asyncio.sleep(20)
        assert len(bound(house)) == 2, "there is no room for more"
        for name in list(bound(house)):
            house.kubelets.finish_named(NAMESPACE, name)
        await house.until(lambda: {"late-2", "late-3"} <= bound(house).keys(), 60)
        await house.until(lambda: used(house) == 2000)
        for name in ("late-2", "late-3"):
            house.kubelets.finish_named(NAMESPACE, name)
        await house.until(lambda: used(house) == 0)


def test_parts_of_one_owner_may_name_different_schedulers() -> None:
    live(mixed_story())


async def mixed_story() -> None:
    kind = KIND["PyTorchJob"]
    async with opened(nodes=2, gpus=2) as house:
        await define(house, kind)
        Operator(house, kind)
        others = DefaultScheduler(house.double)
        spec = spec_of("PyTorchJob")
        spec["pytorchReplicaSpecs"]["Master"]["template"] = template(scheduler=DEFAULT)
        await owner(house, "PyTorchJob", spec)
        await house.until(lambda: bool(house.world.state.kept.jobs) and house.job(1).state == JobState.RUNNING, 120)
        assert bound(house) == placed(house)
        assert len(bound(house)) == 3
        assert len(others.bound) == 1
        assert len(house.world.state.kept.jobs) == 1, "all of it is one gang"


def test_a_job_that_ran_before_somebody_suspended_it_is_held_too() -> None:
    live(ran_story())


async def ran_story() -> None:
    async with opened(nodes=1) as house:
        Operator(house, JOB)
        others = DefaultScheduler(house.double)
        shape = template(scheduler=DEFAULT)
        await house.ask("POST", path(JOB), {"metadata": {"name": "t"}, "spec": {"suspend": True, "template": shape}})
        began = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
        await house.ask("PATCH", f"{path(JOB)}/t/status", began, "application/merge-patch+json")
        queued = {"metadata": {"labels": QUEUED}}
        await house.ask("PATCH", f"{path(JOB)}/t", queued, "application/merge-patch+json")
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 90)
        assert bound(house) == placed(house) == others.bound


def test_a_definition_that_drops_gates_is_told_of_and_lets_nothing_run() -> None:
    live(dropped_story())


async def dropped_story() -> None:
    kind = KIND["PyTorchJob"]
    async with opened(nodes=1, gpus=4) as house:
        await define(house, kind)
        name = f"{kind.plural}.kubeflow.org"
        (found,) = [
            one
            for one in house.stored("apiextensions.k8s.io/customresourcedefinitions")
            if one["metadata"]["name"] == name
        ]
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        pods: Object = {"type": "object", "properties": {"containers": {"type": "array", "items": free}}}
        pods["properties"] |= {"schedulerName": {"type": "string"}}
        shape = {"type": "object", "properties": {"spec": pods}}
        replica = {"type": "object", "properties": {"replicas": {"type": "integer"}, "template": shape}}
        spec = {"pytorchReplicaSpecs": {"type": "object", "additionalProperties": replica}, "runPolicy": free}
        whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": free}}
        version = {**found["spec"]["versions"][0], "schema": {"openAPIV3Schema": whole}}
        await house.ask("PATCH", f"{CRDS}/{name}", {"spec": {"versions": [version]}}, "application/merge-patch+json")
        operator = Operator(house, kind)
        DefaultScheduler(house.double)
        await owner(house, "PyTorchJob", spec_of("PyTorchJob", scheduler=DEFAULT))
        word = "take no scheduling gates (the definition of PyTorchJob drops them)"
        await house.until(lambda: any(word in one["message"] for one in house.stored("/events", NAMESPACE)), 90)
        assert suspended(house, kind, "t")
        assert operator.made == 0
        assert not house.world.state.kept.jobs


def test_what_its_scheduler_does_not_bind_goes_back_to_the_queue() -> None:
    live(unbound_story())


async def unbound_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        Operator(house, JOB)
        await owner(house, "Job", spec_of("Job", scheduler=DEFAULT))
        await house.until(lambda: len(placed(house)) == 3)
        await house.until(lambda: house.job(1).state == JobState.WAITING, 120)
        await house.until(lambda: suspended(house, JOB, "t"))
        assert used(house) == 0
        others = DefaultScheduler(house.double)
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 300)
        assert bound(house) == placed(house) == others.bound


def test_a_pod_with_our_gate_waits_for_its_turn_and_its_own_scheduler_binds_it() -> None:
    live(gated_story())


async def gated_story() -> None:
    async with opened(nodes=3, gpus=1) as house:
        others = DefaultScheduler(house.double)
        await house.ask("PUT", "/api/v1/nodes/n2", {**house.stored("/nodes")[2], "spec": {"unschedulable": True}})
        either = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]} for name in ("n0", "n1")]
        terms = [{"matchExpressions": [one]} for one in either]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        for number in range(3):
            spec = {**template(scheduler=DEFAULT)["spec"], "affinity": {"nodeAffinity": required}}
            spec["schedulingGates"] = [{"name": "gangline.dev/queued"}]
            await house.ask("POST", PODS, {"metadata": {"name": f"p{number}"}, "spec": spec})
        await house.until(lambda: len(bound(house)) == 2)
        await asyncio.sleep(20)
        assert sorted(bound(house).values()) == ["n0", "n1"]
        assert others.bound == bound(house) == placed(house)
        (waiting,) = [pod for pod in house.stored("/pods") if not pod["spec"].get("nodeName")]
        assert waiting["spec"]["schedulingGates"], "its turn has not come"


def test_a_gated_pod_is_kept_to_a_node_by_more_requirements_and_never_by_others() -> None:
    here = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    assert pointed(None, "a")["nodeAffinity"][field] == {"nodeSelectorTerms": [{"matchFields": [here]}]}
    gpu, anti = {"key": "gpu", "operator": "Exists"}, {"podAntiAffinity": {"x": 1}}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [1]}
    terms: list[Any] = [{"matchExpressions": [gpu]}, {}]
    found = pointed({**anti, "nodeAffinity": {**wish, field: {"nodeSelectorTerms": terms}}}, "a")
    assert found["podAntiAffinity"] == {"x": 1}
    assert found["nodeAffinity"] == {
        **wish,
        field: {"nodeSelectorTerms": [{"matchExpressions": [gpu], "matchFields": [here]}, {}]},
    }, "a term that asks for nothing is no node's, and stays so"
