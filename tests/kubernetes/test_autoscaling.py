"""What an autoscaler sees: machines are asked for only where they help, and nodes under running work are left alone."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import CRDS, NAMESPACE, House, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owners import KIND, QUEUED, Operator, path, spec_of

from dollhouse.loop import live
from gangline_core.cluster import Pool
from gangline_core.groups import Group
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_kubernetes.api import path_of
from gangline_kubernetes.manifests import STAYS
from gangline_kubernetes.provisioning import AGAIN_S, CHECK_S, ENDED, PLURAL, PREFIX
from gangline_kubernetes.provisioning import REQUESTS as VERSION
from gangline_kubernetes.statuses import QUOTA, ROOM
from gangline_wire.requests import SetGroup, SetHold, SetPool

Object = dict[str, Any]
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
REQUESTS = "autoscaling.x-k8s.io/provisioningrequests"


def pod_named(house: House, name: str) -> Object:
    """A pod of the team."""
    return next(pod for pod in house.stored("/pods") if pod["metadata"]["name"] == name)


def why(house: House, name: str) -> str:
    """Why a pod is not scheduled, in the word that autoscalers read; empty when it is or nobody said."""
    conditions = pod_named(house, name)["status"].get("conditions", [])
    return next(
        (one.get("reason", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), ""
    )


async def limit(house: House, gpus: int) -> None:
    """The group may use so many GPUs."""
    await house.world.ask(SetGroup(group=Group(path="lab", limit={"gpu_milli": gpus * 1000}), by="root"))


def test_a_pod_whose_wait_changes_from_room_to_quota_no_longer_asks_for_machines() -> None:
    live(changing_story())


async def changing_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "one")
        await house.until(lambda: bound(house) == {"one": "n0"})
        await make(house, "two")
        await house.until(lambda: why(house, "two") == "Unschedulable")
        await limit(house, 1)
        await house.until(lambda: why(house, "two") == "QuotaHeld")
        await limit(house, 9)
        await house.until(lambda: why(house, "two") == "Unschedulable")
        house.kubelets.add_node("n1", gpus=1)
        await house.until(lambda: "two" in bound(house))
        assert why(house, "two") == ""


def test_a_pod_that_somebody_holds_asks_for_no_machines() -> None:
    live(held_story())


async def held_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "one")
        await house.until(lambda: bound(house) == {"one": "n0"})
        await make(house, "two")
        await house.until(lambda: why(house, "two") == "Unschedulable")
        await house.world.ask(SetHold(job=2, held=True, by="ann"))
        await house.until(lambda: why(house, "two") == "Held")


def test_no_reason_is_both_a_wait_for_room_and_one_for_quota() -> None:
    assert not ROOM & QUOTA
    others = set(ReasonCode) - ROOM
    assert {ReasonCode.GROUP_LIMIT, ReasonCode.USER_LIMIT, ReasonCode.BUDGET_EXHAUSTED} <= others


@pytest.mark.parametrize("own", ["", "true"])
def test_running_pods_keep_their_node_unless_their_owner_says_otherwise(own: str) -> None:
    live(marks_story(own))


async def marks_story(own: str) -> None:
    (mark, _) = STAYS
    async with opened(nodes=1, gpus=2) as house:
        await make(house, "theirs", annotations={mark: own} if own else {})
        await house.apply("ours", gpus=1, command=["sleep"])
        await house.phase("ours", "Running")
        await house.until(lambda: "theirs" in bound(house))
        assert pod_named(house, "theirs")["metadata"]["annotations"][mark] == (own or "false")
        (pod,) = await house.pods(**{"gangline.dev/job": "2" if house.job(1).spec.name != "ours" else "1"})
        assert STAYS.items() <= pod["metadata"]["annotations"].items()


def test_a_pod_that_is_told_to_go_or_is_over_no_longer_keeps_its_node() -> None:
    live(gone_story())


async def gone_story() -> None:
    (mark, other) = STAYS
    async with opened(nodes=1, gpus=3) as house:
        await make(house, "over")
        await make(house, "kept", annotations={mark: "false"})
        await house.apply("stopped", gpus=1, command=["sleep"], grace="30s")
        await house.phase("stopped", "Running")
        await house.until(lambda: {"over", "kept"} <= set(bound(house)))
        for name in ("over", "kept"):
            house.kubelets.finish(pod_named(house, name), 0)
        await house.until(lambda: mark not in pod_named(house, "over")["metadata"]["annotations"])
        assert other not in pod_named(house, "over")["metadata"]["annotations"]
        assert pod_named(house, "kept")["metadata"]["annotations"][mark] == "false", "its owner said so"
        seen: list[Object] = []
        house.double.store.listeners.append(lambda change: seen.append(change.after["metadata"]))
        await house.ask("DELETE", f"/apis/gangline.dev/v1alpha1/namespaces/{NAMESPACE}/jobs/stopped")
        await house.until(lambda: not house.stored("gangline.dev/jobs"))
        told = [meta for meta in seen if "gangline.dev/notice" in meta.get("annotations", {})]
        assert told
        assert all(mark not in meta["annotations"] for meta in told)


async def with_autoscaler(house: House) -> None:
    """The autoscaler's own kind, and a pool that grows."""
    await house.world.ask(SetPool(pool=Pool(name="default", grows=True), by="root"))
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    names = {
        "kind": "ProvisioningRequest",
        "plural": "provisioningrequests",
        "singular": "provisioningrequest",
        "listKind": "ProvisioningRequestList",
    }
    spec = {"group": "autoscaling.x-k8s.io", "names": names, "scope": "Namespaced", "versions": [version]}
    await house.ask("POST", CRDS, {"metadata": {"name": "provisioningrequests.autoscaling.x-k8s.io"}, "spec": spec})


def test_a_job_that_waits_for_room_asks_for_machines_for_all_of_it_and_one_that_waits_for_quota_for_none() -> None:
    live(request_story())


async def request_story() -> None:
    async with opened(nodes=1, gpus=8, provisioning_class=CLASS) as house:
        await with_autoscaler(house)
        await house.apply(
            "train", tasks=4, gpus=8, cpus=4, memory="16Gi", gpu_models=["NVIDIA-H100"], command=["sleep"]
        )
        await house.until(lambda: bool(house.stored("/podtemplates")), 120)
        (request,) = house.stored(REQUESTS)
        assert request["metadata"]["namespace"] == NAMESPACE
        assert request["spec"]["provisioningClassName"] == CLASS
        (podset,) = request["spec"]["podSets"]
        assert podset["count"] == 4
        (template,) = house.stored("/podtemplates")
        assert template["metadata"]["name"] == podset["podTemplateRef"]["name"]
        spec = template["template"]["spec"]
        assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100"}
        assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
        await limit(house, 8)
        await house.until(lambda: not house.stored(REQUESTS))
        assert not house.stored("/podtemplates"), "templates go with their request"
        await limit(house, 99)
        await house.until(lambda: bool(house.stored(REQUESTS)))
        for number in range(1, 4):
            house.kubelets.add_node(f"n{number}")
        await house.phase("train", "Running")
        await house.until(lambda: not house.stored(REQUESTS))


def test_a_request_whose_templates_were_not_made_gets_them() -> None:
    live(half_made_story())


async def half_made_story() -> None:
    async with opened(nodes=1, gpus=8, provisioning_class=CLASS) as house:
        await with_autoscaler(house)
        left = {"apiVersion": VERSION, "kind": "ProvisioningRequest", "metadata": {"name": f"{PREFIX}1"}}
        await house.ask("POST", path_of(VERSION, PLURAL, namespace=NAMESPACE), left)
        await house.apply("train", tasks=4, gpus=8, command=["sleep"])
        await house.until(lambda: bool(house.stored("/podtemplates")), 120)
        (request,) = house.stored(REQUESTS)
        (template,) = house.stored("/podtemplates")
        assert template["metadata"]["ownerReferences"][0]["uid"] == request["metadata"]["uid"]


def test_a_new_leader_finds_the_requests_of_the_last_one() -> None:
    live(found_story())


async def found_story() -> None:
    async with opened(nodes=1, gpus=8, provisioning_class=CLASS) as house:
        await with_autoscaler(house)
        await house.apply("train", tasks=2, gpus=8, command=["sleep"])
        await house.until(lambda: bool(house.stored(REQUESTS)), 120)
        await house.world.crash("kubernetes")
        await house.world.ask(SetHold(job=1, held=True, by="ann"))
        assert house.stored(REQUESTS)
        house.world.restart("kubernetes")
        await house.until(lambda: not house.stored(REQUESTS))
        assert house.job(1).state == JobState.HELD


def test_pods_that_exist_ask_by_themselves_and_suspended_owners_by_a_request() -> None:
    live(both_story())


async def both_story() -> None:
    async with opened(nodes=1, gpus=1, provisioning_class=CLASS) as house:
        await with_autoscaler(house)
        Operator(house, KIND["Job"])
        await make(house, "one")
        await house.until(lambda: bound(house) == {"one": "n0"})
        await make(house, "two")
        await house.until(lambda: why(house, "two") == "Unschedulable")
        body = {"metadata": {"name": "train", "labels": QUEUED}, "spec": spec_of("Job")}
        await house.ask("POST", path(KIND["Job"]), body)
        await house.until(lambda: bool(house.stored(REQUESTS)), 120)
        assert [one["metadata"]["labels"]["gangline.dev/job"] for one in house.stored(REQUESTS)] == ["3"]


def test_machines_are_asked_for_by_the_affinity_that_an_owner_says() -> None:
    live(affinity_story())


async def affinity_story() -> None:
    expression = {"key": "disk", "operator": "NotIn", "values": ["hdd"]}
    terms = [{"matchExpressions": [expression]}]
    async with opened(nodes=1, gpus=3, provisioning_class=CLASS) as house:
        await with_autoscaler(house)
        await make(house, "one")
        await house.until(lambda: bound(house) == {"one": "n0"})
        spec = spec_of("Job")
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["template"]["spec"]["affinity"] = {"nodeAffinity": required}
        await house.ask("POST", path(KIND["Job"]), {"metadata": {"name": "train", "labels": QUEUED}, "spec": spec})
        await house.until(lambda: bool(house.stored("/podtemplates")), 120)
        shape = house.stored("/podtemplates")[0]["template"]["spec"]
        assert shape["affinity"]["nodeAffinity"] == required
        assert not shape["nodeSelector"], "no node of the cluster bears a label that only the log knows"


@pytest.mark.parametrize("word", sorted(ENDED))
def test_a_request_that_ended_in_vain_is_made_anew_ever_later_while_its_job_waits(word: str) -> None:
    live(vain_story(word))


async def vain_story(word: str) -> None:
    async with opened(nodes=1, gpus=8, provisioning_class=CLASS) as house:
        await with_autoscaler(house)
        await house.apply("train", tasks=2, gpus=8, command=["sleep"])
        await house.until(lambda: bool(house.stored(REQUESTS)), 120)
        pauses: list[float] = []
        clock = asyncio.get_running_loop()
        for _ in range(3):
            (request,) = house.stored(REQUESTS)
            at = path_of(VERSION, PLURAL, namespace=NAMESPACE, name=request["metadata"]["name"])
            fine = [{"type": "Accepted", "status": "True"}, {"type": word, "status": "False"}]
            merge = "application/merge-patch+json"
            await house.ask("PATCH", at, {"status": {"conditions": fine}}, merge)
            await asyncio.sleep(2 * CHECK_S)
            assert house.stored(REQUESTS)[0]["metadata"]["uid"] == request["metadata"]["uid"]
            await house.ask("PATCH", at, {"status": {"conditions": [{"type": word, "status": "True"}]}}, merge)
            await house.until(lambda: not house.stored(REQUESTS))
            gone_s = clock.time()
            await house.until(lambda: bool(house.stored("/podtemplates")), 600)
            pauses.append(clock.time() - gone_s)
        assert [round(pause / AGAIN_S) for pause in pauses] == [1, 2, 4]
        house.kubelets.add_node("n1")
        await house.phase("train", "Running")
        await house.until(lambda: not house.stored(REQUESTS))
