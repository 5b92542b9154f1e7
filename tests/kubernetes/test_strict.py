"""The double refuses what the real server refuses, so that nothing of ours passes here and fails there."""

import time
from typing import Any

import msgspec
import pytest

from kubedouble.server import Double

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
EVENTS = "/api/v1/namespaces/default/events"
MERGE = "application/merge-patch+json"
CONTAINER: dict[str, Any] = {"name": "c", "image": "x"}


async def ask(double: Double, method: str, path: str, body: Any, form: str = "application/json") -> tuple[int, str]:
    """Status and what the server says."""
    answer = await double.handle(method, path, "", msgspec.json.encode(body), {"Content-Type": form})
    return answer.status, msgspec.json.decode(answer.body).get("message", "")


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    return {"metadata": {"name": "p"}, "spec": {"containers": [{**CONTAINER, **(container or {})}], **spec}}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "extended resources whose limit differs": (
        pod({"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}}),
        "must be equal to",
    ),
    "extended resources without a limit": (pod({"resources": {"requests": {"a/b": "1"}}}), "must be equal to"),
    "resources without a domain": (pod({"resources": {"limits": {"licences": "1"}}}), "fully qualified"),
    "claims that are not the pod's": (pod({"resources": {"claims": [{"name": "gpus"}]}}), "Not found"),
    "mounts of no volume": (pod({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}), "Not found"),
    "a toleration of any value with one": (
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "must be empty",
    ),
    "a deadline of nothing": (pod(activeDeadlineSeconds=0), "between 1"),
    "a variable that is told twice": (
        pod({"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        "may not be specified",
    ),
    "a finalizer without a domain": (
        {"metadata": {"name": "p", "finalizers": ["mine"]}, "spec": {"containers": [CONTAINER]}},
        "qualified",
    ),
    "an owner without a uid": (
        {
            "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]},
            "spec": {"containers": [CONTAINER]},
        },
        "uid: Invalid value",
    ),
}


@pytest.mark.parametrize(("body", "word"), WRONG.values(), ids=WRONG)
async def test_pods_that_the_server_would_not_take_are_refused(body: dict[str, Any], word: str) -> None:
    status, said = await ask(Double(time.time), "POST", PODS, body)
    assert status == 422
    assert word in said


async def test_a_binding_names_its_pod_and_a_node() -> None:
    double = Double(time.time)
    await ask(double, "POST", PODS, pod())
    right = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await ask(double, "POST", f"{PODS}/p/binding", {**right, "metadata": {}}))[0] == 400
    assert (await ask(double, "POST", f"{PODS}/p/binding", {**right, "target": {"kind": "Pod", "name": "n"}}))[0] == 500
    assert (await ask(double, "POST", f"{PODS}/p/binding", {**right, "target": {"kind": "Node"}}))[0] == 500
    assert (await ask(double, "POST", f"{PODS}/p/binding", right))[0] == 201


async def test_an_event_is_of_its_objects_namespace_and_a_new_one_says_who_told_it() -> None:
    double = Double(time.time)
    about = {"kind": "Job", "name": "j", "namespace": "elsewhere"}
    assert (
        "does not match" in (await ask(double, "POST", EVENTS, {"metadata": {"name": "e"}, "involvedObject": about}))[1]
    )
    here = {"metadata": {"name": "e"}, "involvedObject": {**about, "namespace": "default"}}
    told = {**here, "eventTime": "2026-01-01T00:00:00Z"}
    said = (await ask(double, "POST", EVENTS, told))[1]
    assert "micro time" in said
    assert "reportingInstance: Required" in said
    assert (await ask(double, "POST", EVENTS, here))[0] == 201


async def test_finalizers_are_not_added_to_what_is_being_deleted() -> None:
    double = Double(time.time)
    body = pod()
    await ask(double, "POST", PODS, {**body, "metadata": {"name": "p", "finalizers": ["a.dev/x"]}})
    await ask(double, "DELETE", f"{PODS}/p", {})
    more = {"metadata": {"finalizers": ["a.dev/x", "a.dev/y"]}}
    status, said = await ask(double, "PATCH", f"{PODS}/p", more, MERGE)
    assert (status, "no new finalizers" in said) == (422, True)


async def test_a_claim_is_reserved_only_when_it_is_allocated_from_its_own_requests() -> None:
    double = Double(time.time)
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "g"}}]}}
    await ask(double, "POST", CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
    early = await ask(double, "PATCH", f"{CLAIMS}/c/status", {"status": {"reservedFor": reserved}}, MERGE)
    assert "may not be specified" in early[1]
    device = {"request": "other", "driver": "d", "pool": "n", "device": "gpu-0"}
    other = {"status": {"allocation": {"devices": {"results": [device]}}, "reservedFor": reserved}}
    assert "name of a request" in (await ask(double, "PATCH", f"{CLAIMS}/c/status", other, MERGE))[1]
    right = {
        "status": {"allocation": {"devices": {"results": [{**device, "request": "gpus"}]}}, "reservedFor": reserved}
    }
    assert (await ask(double, "PATCH", f"{CLAIMS}/c/status", right, MERGE))[0] == 200
    changed = {"spec": {"devices": {"requests": []}}}
    assert "immutable" in (await ask(double, "PATCH", f"{CLAIMS}/c", changed, MERGE))[1]


async def test_where_a_jobs_pods_may_be_can_change_only_while_it_is_suspended_and_has_not_started() -> None:
    double = Double(time.time)
    template = {"spec": {"containers": [CONTAINER]}}
    await ask(double, "POST", JOBS, {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}})
    placed = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    assert (await ask(double, "PATCH", f"{JOBS}/j", placed, MERGE))[0] == 200
    other = {"spec": {"template": {"spec": {"schedulerName": "x"}}}}
    assert "immutable" in (await ask(double, "PATCH", f"{JOBS}/j", other, MERGE))[1]
    await ask(double, "PATCH", f"{JOBS}/j/status", {"status": {"startTime": "2026-01-01T00:00:00Z"}}, MERGE)
    again = {"spec": {"template": {"spec": {"nodeSelector": {"a": "c"}}}}}
    assert "immutable" in (await ask(double, "PATCH", f"{JOBS}/j", again, MERGE))[1]
    await ask(double, "PATCH", f"{JOBS}/j/status", {"status": {"startTime": None}}, MERGE)
    assert (await ask(double, "PATCH", f"{JOBS}/j", again, MERGE))[0] == 200


async def test_a_patch_for_another_object_of_that_name_is_invalid_and_a_replacement_conflicts() -> None:
    double = Double(time.time)
    await ask(double, "POST", PODS, pod())
    other = {"metadata": {"name": "p", "uid": "another", "annotations": {"a": "b"}}}
    for place in ("", "/status"):
        status, said = await ask(double, "PATCH", f"{PODS}/p{place}", other, MERGE)
        assert (status, "field is immutable" in said) == (422, True)
    assert (await ask(double, "PUT", f"{PODS}/p", {**pod(), **other}))[0] == 409
    gone = await ask(double, "DELETE", f"{PODS}/p", {"preconditions": {"uid": "another"}})
    assert gone[0] == 409


async def test_what_is_meant_for_a_pod_that_was_replaced_does_no_harm_to_the_new_one() -> None:
    from tests.kubernetes.house import MemoryTransport

    from gangline_kit.clock import SystemClock
    from gangline_kit.ids import SystemIds
    from gangline_kubernetes.api import Api
    from gangline_kubernetes.claims import Claims
    from gangline_kubernetes.config import Config
    from gangline_kubernetes.names import FINALIZER
    from gangline_kubernetes.objects import Meta, Pod
    from gangline_kubernetes.starts import Starter

    double = Double(time.time)
    body = {**pod(), "metadata": {"name": "p", "finalizers": [FINALIZER]}}
    await ask(double, "POST", PODS, body)
    claims = Claims("gpu.nvidia.com", SystemClock(), dict)
    starter = Starter(Api(MemoryTransport(double), SystemClock(), SystemIds()), Config(), claims)
    before = Meta(name="p", namespace="default", uid="the one before", finalizers=(FINALIZER,))
    await starter.release(Pod(metadata=before))
    await starter.delete(before, grace_s=0, notice="go")
    stored = double.store.get("/pods", "default", "p") or {}
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    assert "deletionTimestamp" not in stored["metadata"]
    assert not stored["metadata"].get("annotations")
