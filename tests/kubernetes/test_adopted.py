"""Pods of others that ask for us: single ones, gangs, their owners' words, and what an autoscaler sees."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.house import NAMESPACE, PODS, House, opened

from dollhouse.loop import live
from gangline_core.cluster import Pool
from gangline_core.job import JobState
from gangline_kubernetes.adoption import (
    FOREIGN,
    FRACTION,
    GANG,
    GPU_COUNT,
    NOT_PREEMPTIBLE,
    PREFERRED,
    QUEUE,
    REQUIRED,
    SHARE_MEMORY,
    SIZE,
    SLICE_LEVEL,
    SLICE_SIZE,
    TIME_LIMIT,
    Gang,
    gang_of,
    job_of,
    ordered,
    resources_of,
)
from gangline_kubernetes.config import Config
from gangline_kubernetes.objects import Container, Meta, Pod, PodSpec, Requirements
from gangline_kubernetes.owner_asks import shape_of
from gangline_kubernetes.owner_sizes import ELASTIC, LEAST, MOST, NOTICE_S

ROOT = Path(__file__).resolve().parents[2]


async def make(house: House, name: str, *, gpus: int = 1, gates: bool = False, **meta: Any) -> Any:
    """Somebody makes a pod that names our scheduler."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec: dict[str, Any] = {
        "schedulerName": "gangline",
        "containers": [{"name": "c", "image": "x:1", "resources": resources}],
    }
    if gates:
        spec["schedulingGates"] = [{"name": "gangline.dev/queued"}]
    return await house.ask("POST", PODS, {"metadata": {"name": name, **meta}, "spec": spec})


def bound(house: House) -> dict[str, str]:
    """Nodes of the pods that have one."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in house.stored("/pods") if pod["spec"].get("nodeName")
    }


def test_a_pod_that_names_our_scheduler_is_bound_and_followed_to_its_end() -> None:
    live(single_story())


async def single_story() -> None:
    async with opened(nodes=1, gpus=2) as house:
        await make(house, "one", gates=True)
        await house.until(lambda: bound(house) == {"one": "n0"})
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        (pod,) = house.stored("/pods")
        assert pod["metadata"]["annotations"]["gangline.dev/gpus"] == "0"
        house.kubelets.finish(pod, 0)
        await house.until(lambda: house.job(1).state == JobState.SUCCEEDED)
        await asyncio.sleep(5)
        assert len(house.stored("/pods")) == 1, "what others made, others delete"


def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    live(gang_story())


async def gang_story() -> None:
    words = {"kueue.x-k8s.io/pod-group-name": "g"}
    notes = {"kueue.x-k8s.io/pod-group-total-count": "4"}
    async with opened(nodes=1, gpus=4) as house:
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        for number in range(3):
            await make(house, f"g-{number}", labels=words, annotations=notes)
        await asyncio.sleep(30)
        assert bound(house) == {"first": "n0"}, "the gang is not whole"
        await make(house, "g-3", labels=words, annotations=notes)
        await asyncio.sleep(30)
        assert bound(house) == {"first": "n0"}, "there is no room for all of it"
        waiting = next(pod for pod in house.stored("/pods") if pod["metadata"]["name"] == "g-0")
        said = next(one for one in waiting["status"]["conditions"] if one["type"] == "PodScheduled")
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: len(bound(house)) == 5)


@pytest.mark.parametrize("seconds", ["10000000000000000000", "9" * 40])
def test_a_pod_with_a_number_beyond_all_limits_is_told_so_and_harms_nobody(seconds: str) -> None:
    live(absurd_story(seconds))


async def absurd_story(seconds: str) -> None:
    async with opened(nodes=1, gpus=4) as house:
        await make(house, "absurd", annotations={TIME_LIMIT[0]: seconds})
        await asyncio.sleep(10)
        (pod,) = house.stored("/pods")
        (said,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert "time_limit_s is" in said["message"]
        await make(house, "usual")
        await house.until(lambda: bound(house) == {"usual": "n0"})


def test_a_wait_for_quota_is_not_what_an_autoscaler_acts_on() -> None:
    live(quota_story())


async def quota_story() -> None:
    from gangline_core.groups import Group
    from gangline_wire.requests import SetGroup

    async with opened(nodes=1, gpus=4) as house:
        await house.world.ask(SetGroup(group=Group(path="lab", limit={"gpu_milli": 1000}), by="root"))
        await make(house, "one")
        await house.until(lambda: bound(house) == {"one": "n0"})
        await make(house, "two")

        def reason() -> str:
            found = next(pod for pod in house.stored("/pods") if pod["metadata"]["name"] == "two")
            return next((one["reason"] for one in found["status"]["conditions"] if one["type"] == "PodScheduled"), "")

        await house.until(lambda: reason() == "QuotaHeld")


def test_a_preempted_pod_is_deleted_with_notice_and_its_owners_next_one_is_a_job_of_its_own() -> None:
    live(preempted_story())


async def preempted_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "low")
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        await house.apply("high", gpus=1, level="high", command=["sleep"])
        await house.phase("high", "Running")
        await house.until(lambda: house.job(1).ended_ms > 0)
        await make(house, "low")
        await house.until(lambda: 3 in house.world.state.kept.jobs)
        assert house.job(3).state == JobState.WAITING


def test_a_binding_that_somebody_else_was_faster_with_undoes_the_gang() -> None:
    live(raced_story())


async def raced_story() -> None:
    words = {"gangline.dev/gang": "g", "gangline.dev/gang-size": "2"}
    async with opened(nodes=2, gpus=1) as house:
        house.world.freeze("kubernetes")
        await make(house, "g-0", labels=words)
        await make(house, "g-1", labels=words)
        house.world.thaw("kubernetes")
        from kubedouble.faults import Fault

        house.double.faults.add(
            Fault(method="POST", path="g-1/binding", status=409, reason="Conflict", message="pods g-1: no")
        )
        await house.until(lambda: house.job(1).ended_ms > 0 or house.job(1).attempt > 1)
        await house.until(lambda: not any(pod["metadata"]["name"] == "g-0" for pod in house.stored("/pods")))


def pod(name: str = "p", *, owner: str = "", **fields: Any) -> Pod:
    """A pod as the watch decodes it."""
    meta = {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    limits = fields.pop("limits", {})
    spec = PodSpec(containers=(Container(resources=Requirements(limits=limits)),), **fields)
    return Pod(metadata=Meta(name=name, namespace="team", uid=f"uid-{name}", **meta), spec=spec)


def test_words_of_other_schedulers_mean_the_same_here() -> None:
    volcano = pod(annotations={"scheduling.k8s.io/group-name": "pg", "scheduling.volcano.sh/queue-name": "lab.vision"})
    assert gang_of(volcano).name == "pg"
    assert job_of([[volcano]], Config(), None, "nvidia.com/gpu").group == "lab/vision"
    koordinator = {"gang.scheduling.koordinator.sh/name": "k", "gang.scheduling.koordinator.sh/min-available": "8"}
    assert gang_of(pod(annotations=koordinator)).size == 8
    topology = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
    assert job_of([[pod(annotations=topology)]], Config(), None, "nvidia.com/gpu").topology.required == "node"
    kept = {"kai.scheduler/preemptibility": "non-preemptible"}
    assert not job_of([[pod(labels=kept)]], Config(), None, "nvidia.com/gpu").preemptible


@pytest.mark.parametrize(("said", "goes_on"), [("true", True), ("false", False), ("", False)])
def test_pods_say_that_new_ones_go_on_where_they_stopped(said: str, goes_on: bool) -> None:
    asked = job_of([[pod(annotations={"gangline.dev/checkpoints": said})]], Config(), None, "nvidia.com/gpu")
    assert asked.checkpoints is goes_on
    silent = job_of([[pod()]], Config(), None, "nvidia.com/gpu")
    assert (shape_of(asked) == shape_of(silent)) is not goes_on


def test_fractions_of_other_schedulers_are_read() -> None:
    assert resources_of(pod(annotations={"gpu-fraction": "0.25"})).gpu_milli == 250
    assert resources_of(pod(annotations={"gpu-memory": "4096"})).gpu_memory_mib == 4096
    assert resources_of(pod(limits={"nvidia.com/gpu": "2", "cpu": "1500m"})).whole_gpus == 2


def test_members_are_in_the_order_of_their_numbers() -> None:
    pods = [pod(f"worker-{number}") for number in (10, 9, 1)]
    (role,) = ordered(pods)
    assert [one.metadata.name for one in role] == ["worker-1", "worker-9", "worker-10"]


@pytest.mark.parametrize("name", QUEUE)
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_every_name_of_a_queue_is_a_group(name: str, place: str) -> None:
    assert job_of([[pod(**{place: {name: "lab.vision"}})]], Config(), None, "nvidia.com/gpu").group == "lab/vision"


@pytest.mark.parametrize("name", GANG)
@pytest.mark.parametrize("size", SIZE)
def test_every_name_of_a_gang_and_of_its_size_gathers_pods(name: str, size: str) -> None:
    assert gang_of(pod(labels={name: "g"}, annotations={size: "4"})) == Gang("team", "g", 4)


@pytest.mark.parametrize("name", [*REQUIRED, *PREFERRED])
def test_every_name_of_a_topology_is_a_level(name: str) -> None:
    pool = Pool(name="default", topology={"rack": "example.org/rack"})
    wish = job_of([[pod(annotations={name: "example.org/rack"})]], Config(), pool, "nvidia.com/gpu").topology
    assert (wish.required or wish.preferred) == "rack"
    assert bool(wish.required) is (name in REQUIRED)


def test_pods_in_slices_stay_together_slice_by_slice() -> None:
    pool = Pool(name="default", topology={"rack": "example.org/rack"})
    for level, size in zip(SLICE_LEVEL, SLICE_SIZE, strict=True):
        notes = {level: "example.org/rack", size: "4"}
        wish = job_of([[pod(annotations=notes)]], Config(), pool, "nvidia.com/gpu").topology
        assert (wish.slice_level, wish.slice_tasks) == ("rack", 4)
    half = job_of([[pod(annotations={SLICE_SIZE[1]: "4"})]], Config(), pool, "nvidia.com/gpu").topology
    assert half.slice_tasks == 0, "a size without a level says nothing"


@pytest.mark.parametrize(("name", "value"), NOT_PREEMPTIBLE.items())
def test_every_word_against_preemption_is_heeded(name: str, value: str) -> None:
    assert not job_of([[pod(annotations={name: value})]], Config(), None, "nvidia.com/gpu").preemptible
    assert job_of([[pod(annotations={name: "other"})]], Config(), None, "nvidia.com/gpu").preemptible


@pytest.mark.parametrize("name", [*FRACTION, *SHARE_MEMORY])
def test_every_word_for_a_part_of_a_gpu_is_read(name: str) -> None:
    found = resources_of(pod(annotations={name: "0.5" if name in FRACTION else "4096"}))
    assert (found.gpu_milli, found.gpu_memory_mib) == ((500, 0) if name in FRACTION else (0, 4096))


def test_every_name_that_is_understood_stands_in_the_table_for_users() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    names = (
        *QUEUE,
        *GANG,
        *SIZE,
        *GPU_COUNT,
        *FRACTION,
        *SHARE_MEMORY,
        *FOREIGN,
        *NOT_PREEMPTIBLE,
        *TIME_LIMIT,
    )
    for name in (*names, *REQUIRED, *SLICE_LEVEL, *SLICE_SIZE, *LEAST, *MOST, *NOTICE_S, *ELASTIC):
        assert f"`{name}" in page, name
