"""Pods of others get devices that we choose where that can be, and are told what to do where it cannot."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import NAMESPACE, PODS, House, Object, opened
from tests.kubernetes.test_adopted import bound
from tests.kubernetes.test_claims import CLAIMS, STORED, claim, indexes
from tests.kubernetes.test_devices import offer

from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.faults import Fault

TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
FIELD = {"fieldRef": {"fieldPath": "metadata.annotations['gangline.dev/visible-devices']"}}
TAKES = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": FIELD}]


async def make(house: House, name: str, *, meta: Object | None = None, env: Any = (), **spec: Any) -> Object:
    """Somebody makes a pod that names our scheduler."""
    container = {"name": "c", "image": "x:1", "env": list(env), "resources": spec.pop("resources", {})}
    body = {"schedulerName": "gangline", "containers": [container], **spec}
    made: Object = await house.ask("POST", PODS, {"metadata": {"name": name, **(meta or {})}, "spec": body})
    return made


def spec_of(count: int, device_class: str = "gpu.nvidia.com", **more: Any) -> Object:
    """What a claim asks for."""
    exactly = {"deviceClassName": device_class, "count": count, **more}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def told(house: House, name: str) -> tuple[str, str]:
    """Reason and message of the condition that says why a pod has no place."""
    pod = house.double.store.get("/pods", NAMESPACE, name) or {"status": {}}
    found = (one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled")
    return next(((one.get("reason", ""), one.get("message", "")) for one in found), ("", ""))


def devices(house: House) -> dict[str, list[str]]:
    """Devices of each pod that claims are reserved for."""
    found: dict[str, list[str]] = {}
    for one in house.stored(STORED):
        status = one.get("status") or {}
        for holder in status.get("reservedFor") or ():
            results = status["allocation"]["devices"]["results"]
            found.setdefault(holder["name"], []).extend(result["device"] for result in results)
    return found


def test_in_mode_annotation_a_pod_of_others_that_takes_its_devices_from_us_gets_its_own() -> None:
    live(annotated_story())


async def annotated_story() -> None:
    async with opened(nodes=1, gpus=4, mode="annotation") as house:
        await house.apply("ours", gpus=1, command=["sleep"])
        await house.phase("ours", "Running")
        await make(house, "whole", env=TAKES, meta={"annotations": {"gangline.dev/gpu-count": "2"}})
        for name in ("half-a", "half-b"):
            await make(house, name, env=TAKES, meta={"annotations": {"gpu-fraction": "0.5"}})
        await house.until(lambda: len(bound(house)) == 4)
        notes = {pod["metadata"]["name"]: pod["metadata"]["annotations"] for pod in house.stored("/pods")}
        seen = {name: note["gangline.dev/visible-devices"] for name, note in notes.items() if name[:4] in "whole half"}
        ours = next(note["gangline.dev/gpus"] for name, note in notes.items() if name.startswith("ours"))
        whole = seen["whole"].split(",")
        assert len({ours, *whole, seen["half-a"]}) == 4
        assert seen["half-a"] == seen["half-b"], "two halves are one card"


@pytest.mark.parametrize(
    ("mode", "pod", "why"),
    [
        ("annotation", {"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "gangline.dev/gpu-count"),
        ("annotation", {"meta": {"annotations": {"gangline.dev/gpu-count": "1"}}}, "NVIDIA_VISIBLE_DEVICES"),
        ("annotation", {"resourceClaims": [{"name": "g", "resourceClaimName": "x"}]}, "no ResourceClaims"),
        ("count", {"resourceClaims": [{"name": "g", "resourceClaimName": "x"}]}, "ask for nvidia.com/gpu"),
        ("count", {"meta": {"annotations": {"gangline.dev/gpu-count": "1"}}}, "ask for nvidia.com/gpu"),
        ("count", {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}}, "whole GPUs only"),
        ("count", {"resources": {"limits": {"koordinator.sh/gpu-core": "50"}}}, "need mode annotation"),
        ("count", {"meta": {"annotations": {"gpu-fraction": "0.5"}}}, "ask for nvidia.com/gpu"),
        ("annotation", {"env": TAKES, "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}}, "gangline.dev/gpu-memory"),
        ("annotation", {"env": TAKES, "resources": {"limits": {"nvidia.com/gpucores": "30"}}}, "gpu-fraction"),
        ("dra", {"resources": {"limits": {"nvidia.com/gpumem": "3000"}}}, "whole GPUs only"),
        ("dra", {"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "spec.resourceClaims"),
        ("dra", {"meta": {"annotations": {"gpu-fraction": "0.5"}}}, "spec.resourceClaims"),
        ("dra", {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "x"}]}, "ResourceClaimTemplate x yet"),
    ],
)
def test_a_pod_that_cannot_be_given_its_devices_is_not_bound_and_is_told_what_would_help(
    mode: str, pod: Object, why: str
) -> None:
    live(unfit_story(mode, pod, why))


async def unfit_story(mode: str, pod: Object, why: str) -> None:
    async with opened(nodes=1, gpus=4, mode=mode) as house:
        await make(house, "unfit", **pod)
        await house.until(lambda: told(house, "unfit")[0] == "DevicesNotGiven")
        assert why in told(house, "unfit")[1]
        await make(house, "plain")
        await house.until(lambda: set(bound(house)) == {"plain"}, what="a pod without GPUs needs none of this")
        before = house.double.store.version
        await asyncio.sleep(120)
        pods = [pod for pod in house.stored("/pods") if pod["metadata"]["name"] == "unfit"]
        assert int(pods[0]["metadata"]["resourceVersion"]) <= before, "it is told once"


def test_in_mode_dra_claims_that_a_pod_names_are_allocated_by_us_and_given_back() -> None:
    live(named_story())


async def named_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 4)
        await house.until(lambda: len(indexes(house)) == 4)
        for name, count in (("two", 2), ("one", 1)):
            await house.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec_of(count)})
        uses = [{"name": "a", "resourceClaimName": "two"}, {"name": "b", "resourceClaimName": "one"}]
        await make(house, "theirs", resourceClaims=uses)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        assert sum(share.milli for task in house.world.state.kept.tasks.values() for share in task.gpus) == 3000
        assert len(set(devices(house)["theirs"])) == 3
        for one in house.stored(STORED):
            assert one["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        await house.apply("other", gpus=2, command=["sleep"])
        await house.phase("other", "Waiting")
        house.kubelets.finish_named(NAMESPACE, "theirs")
        await house.phase("other", "Running")
        assert set(devices(house)) == {pod["metadata"]["name"] for pod in await house.pods() if "other" in str(pod)}
        kept = {one["metadata"]["name"]: one for one in house.stored(STORED)}
        assert not kept["two"].get("status"), "what others made stays, with nothing in it"
        assert not kept["two"]["metadata"].get("finalizers")


def test_in_mode_dra_claims_that_are_made_for_the_pods_of_a_gang_are_allocated_by_us() -> None:
    live(made_for_story())


async def made_for_story() -> None:
    words = {"gangline.dev/gang": "g", "gangline.dev/gang-size": "2"}
    async with opened(nodes=2, gpus=0, mode="dra") as house:
        for node in ("n0", "n1"):
            await offer(house, node, 2)
        await house.until(lambda: all(len(n.gpus) == 2 for n in house.world.state.kept.nodes.values()))
        await house.ask("POST", TEMPLATES, {"metadata": {"name": "pair"}, "spec": {"spec": spec_of(2)}})
        uses = [{"name": "a", "resourceClaimTemplateName": "pair"}]
        gates = [{"name": "gangline.dev/queued"}]
        for name in ("g-0", "g-1"):
            await make(house, name, meta={"labels": words}, resourceClaims=uses, schedulingGates=gates)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        assert bound(house)["g-0"] != bound(house)["g-1"]
        assert {name: len(some) for name, some in devices(house).items()} == {"g-0": 2, "g-1": 2}
        for name in ("g-0", "g-1"):
            house.kubelets.finish_named(NAMESPACE, name)
        await house.until(lambda: house.job(1).state == JobState.SUCCEEDED)
        await house.until(lambda: not devices(house))


def test_a_refused_binding_gives_the_claims_of_the_whole_gang_back() -> None:
    live(refused_story())


async def refused_story() -> None:
    words = {"gangline.dev/gang": "g", "gangline.dev/gang-size": "2"}
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 2)
        await house.until(lambda: len(indexes(house)) == 2)
        for name in ("c-0", "c-1"):
            await house.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec_of(1)})
        fault = Fault(method="POST", path="g-1/binding", status=409, reason="Conflict", message="pods g-1: no")
        house.double.faults.add(fault)
        for k in (0, 1):
            uses = [{"name": "a", "resourceClaimName": f"c-{k}"}]
            await make(house, f"g-{k}", meta={"labels": words}, resourceClaims=uses)
        await house.until(lambda: house.job(1).ended_ms > 0, within_s=120)
        await house.until(lambda: "g-0" not in {pod["metadata"]["name"] for pod in house.stored("/pods")})
        await house.until(lambda: not devices(house))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (spec_of(1, "nic.example.org"), "class nic.example.org"),
        (spec_of(1, selectors=[{"cel": {"expression": "true"}}]), "without selectors"),
        (spec_of(1, allocationMode="All"), "exact count"),
        ({"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "s"}]}]}}, "with `exactly`"),
        ({"devices": {**spec_of(1)["devices"], "constraints": [{"matchAttribute": "a/b"}]}}, "constraints"),
    ],
)
def test_a_claim_that_asks_for_what_we_cannot_promise_is_left_alone(spec: Object, why: str) -> None:
    live(strange_story(spec, why))


async def strange_story(spec: Object, why: str) -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 2)
        await house.ask("POST", CLAIMS, {"metadata": {"name": "strange"}, "spec": spec})
        await make(house, "pod", resourceClaims=[{"name": "a", "resourceClaimName": "strange"}])
        await house.until(lambda: why in told(house, "pod")[1])
        assert not bound(house)


def test_a_claim_that_somebody_else_allocated_is_theirs() -> None:
    live(shared_story())


async def shared_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 2)
        await claim(house, "shared", "gpu-0")
        await make(house, "late", resourceClaims=[{"name": "a", "resourceClaimName": "shared"}])
        await house.until(lambda: "somebody else has allocated it" in told(house, "late")[1])


@pytest.mark.parametrize("mode", ["annotation", "dra"])
def test_an_owner_whose_pods_cannot_be_given_devices_stays_suspended_and_is_told(mode: str) -> None:
    live(owner_story(mode))


async def owner_story(mode: str) -> None:
    async with opened(nodes=1, gpus=4, mode=mode) as house:
        container = {"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        template = {"spec": {"schedulerName": "gangline", "containers": [container]}}
        spec = {"suspend": True, "parallelism": 2, "template": template}
        await house.ask(
            "POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {"metadata": {"name": "theirs"}, "spec": spec}
        )
        await house.until(lambda: bool(house.stored("/events")))
        (event,) = house.stored("/events")
        assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Job", "theirs")
        assert f"mode {mode}" in event["message"]
        await asyncio.sleep(60)
        assert house.stored("batch/jobs")[0]["spec"]["suspend"] is True
