"""The double behaves as the real API server does where it was probed (1.36.2): the list of what a fake must copy."""

from typing import Any

import msgspec
import pytest

from dollhouse.loop import live
from gangline_kubernetes.definitions import definitions
from kubedouble.faults import Fault
from kubedouble.kubelet import Kubelets
from kubedouble.server import Double

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/gangline.dev/v1alpha1/namespaces/default/jobs"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
SPEC = {"containers": [{"name": "main", "image": "x:1"}]}


class Probe:
    """A double and one hand that asks it."""

    def __init__(self) -> None:
        self.double = Double(lambda: 1_700_000_000.0)

    async def ask(self, method: str, path: str, body: Any = None, form: str = "application/json") -> tuple[int, Any]:
        """Status and body of an answer."""
        place, _, query = path.partition("?")
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.double.handle(method, place, query, data, {"Content-Type": form})
        if answer.stream is not None:
            self.stream = answer.stream
            return answer.status, None
        return answer.status, msgspec.json.decode(answer.body)

    async def make(self, name: str, **meta: Any) -> Any:
        """A pod."""
        status, found = await self.ask("POST", PODS, {"metadata": {"name": name, **meta}, "spec": SPEC})
        assert status == 201, found
        return found

    async def define(self) -> None:
        """Our own definitions."""
        for one in definitions():
            status, found = await self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
            assert status == 201, found


async def writes() -> None:
    probe = Probe()
    made = await probe.make("a", labels={"x": "1"})
    version = made["metadata"]["resourceVersion"]
    assert version.isdecimal()
    assert (await probe.ask("POST", PODS, {"metadata": {"name": "a"}, "spec": SPEC}))[1]["reason"] == "AlreadyExists"
    patch = {"metadata": {"labels": {"x": "2"}, "resourceVersion": version}}
    assert (await probe.ask("PATCH", f"{PODS}/a", patch, MERGE))[0] == 200
    assert (await probe.ask("PATCH", f"{PODS}/a", patch, MERGE))[1]["reason"] == "Conflict"
    assert (await probe.ask("PUT", f"{PODS}/a", made))[1]["reason"] == "Conflict"
    same = {"metadata": {"labels": {"x": "2"}}}
    before = (await probe.ask("GET", f"{PODS}/a"))[1]
    assert (await probe.ask("PATCH", f"{PODS}/a", same, MERGE))[1] == before, "what changes nothing makes no version"
    missing = {"metadata": {"name": "a", "namespace": "nowhere"}, "spec": SPEC}
    assert (await probe.ask("POST", "/api/v1/namespaces/nowhere/pods", missing))[0] == 404


async def statuses() -> None:
    probe = Probe()
    await probe.make("a")
    main = await probe.ask("PATCH", f"{PODS}/a", {"status": {"phase": "Running"}}, MERGE)
    assert main[1]["status"]["phase"] == "Pending", "the main resource cannot touch the status"
    change = {"metadata": {"labels": {"seen": "yes"}}, "status": {"phase": "Running"}}
    _, found = await probe.ask("PATCH", f"{PODS}/a/status", change, MERGE)
    assert (found["status"]["phase"], found["metadata"]["labels"]) == ("Running", {"seen": "yes"})
    await probe.define()
    job = {"metadata": {"name": "j"}, "spec": {"gpus": 1}, "status": {"phase": "Mine"}}
    _, made = await probe.ask("POST", JOBS, job)
    assert "status" not in made
    _, found = await probe.ask("PATCH", f"{JOBS}/j/status", {"status": {"phase": "P"}, "spec": {"gpus": 2}}, MERGE)
    assert (found["status"]["phase"], found["spec"]["gpus"], found["metadata"]["generation"]) == ("P", 1, 1)
    _, found = await probe.ask("PATCH", f"{JOBS}/j", {"spec": {"hold": True}}, MERGE)
    assert found["metadata"]["generation"] == 2


async def bindings() -> None:
    probe = Probe()
    made = await probe.make("a")
    body = {"metadata": {"name": "a", "annotations": {"k": "v"}}, "target": {"kind": "Node", "name": "n"}}
    wrong = {**body, "metadata": {"name": "a", "uid": "other"}}
    assert (await probe.ask("POST", f"{PODS}/a/binding", wrong))[0] == 409
    assert (await probe.ask("POST", f"{PODS}/a/binding", body))[0] == 201
    status, said = await probe.ask("POST", f"{PODS}/a/binding", body)
    assert (status, "already assigned" in said["message"]) == (409, True)
    _, found = await probe.ask("GET", f"{PODS}/a")
    assert (found["spec"]["nodeName"], found["metadata"]["annotations"]) == ("n", {"k": "v"})
    assert made["metadata"]["uid"] == found["metadata"]["uid"]
    move = {"spec": {"nodeName": "m"}}
    assert (await probe.ask("PATCH", f"{PODS}/a", move, MERGE))[0] == 422
    gated = {"metadata": {"name": "g"}, "spec": {**SPEC, "schedulingGates": [{"name": "wait"}]}}
    await probe.ask("POST", PODS, gated)
    assert (await probe.ask("POST", f"{PODS}/g/binding", {**body, "metadata": {"name": "g"}}))[0] == 409


async def selectors() -> None:
    probe = Probe()
    for number in range(5):
        await probe.make(f"p{number}", labels={"n": str(number)})
    await probe.ask("POST", f"{PODS}/p3/binding", {"metadata": {"name": "p3"}, "target": {"name": "n1"}})

    async def names(query: str) -> list[str]:
        return [one["metadata"]["name"] for one in (await probe.ask("GET", f"{PODS}?{query}"))[1]["items"]]

    assert await names("fieldSelector=spec.nodeName%3Dn1") == ["p3"]
    assert await names("labelSelector=n+in+(1,2),n!%3D2") == ["p1"]
    assert await names("labelSelector=!n") == []
    assert (await probe.ask("GET", f"{PODS}?fieldSelector=spec.color%3Dred"))[0] == 400
    _, page = await probe.ask("GET", f"{PODS}?limit=2")
    assert page["metadata"]["remainingItemCount"] == 3
    await probe.make("p9")
    _, rest = await probe.ask("GET", f"{PODS}?limit=9&continue={page['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["p2", "p3", "p4"], "a list is of one moment"
    probe.double.store.compact()
    assert (await probe.ask("GET", f"{PODS}?limit=9&continue={page['metadata']['continue']}"))[0] == 410


async def watches() -> None:
    probe = Probe()
    probe.double.bookmark_s = 1.0
    made = await probe.make("a")
    await probe.ask(
        "GET", f"{PODS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    stream = probe.stream
    first = msgspec.json.decode(await anext(stream))
    mark = msgspec.json.decode(await anext(stream))
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await probe.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    since = made["metadata"]["resourceVersion"]
    await probe.ask("GET", f"{PODS}?watch=true&resourceVersion={since}&labelSelector=x%3Dz")
    unlabelled = probe.stream
    await probe.ask("GET", f"{PODS}?watch=true&resourceVersion={since}")
    assert msgspec.json.decode(await anext(probe.stream))["type"] == "MODIFIED", (
        "an old version in the window is served"
    )
    await probe.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "z"}}}, MERGE)
    assert msgspec.json.decode(await anext(unlabelled))["type"] == "ADDED", "what begins to match is new"
    probe.double.store.compact()
    await probe.ask("GET", f"{PODS}?watch=true&resourceVersion={since}")
    gone = msgspec.json.decode(await anext(probe.stream))
    assert (gone["type"], gone["object"]["code"]) == ("ERROR", 410)
    assert (await probe.ask("GET", f"{PODS}?watch=true&resourceVersion=99999999"))[0] == 504


async def deletions() -> None:
    probe = Probe()
    kubelets = Kubelets(probe.double)
    kubelets.add_node("n")
    await probe.make("kept", finalizers=["x/y"])
    _, found = await probe.ask("DELETE", f"{PODS}/kept")
    assert found["metadata"]["deletionTimestamp"]
    _, found = await probe.ask("PATCH", f"{PODS}/kept", {"metadata": {"finalizers": []}}, MERGE)
    assert (await probe.ask("GET", f"{PODS}/kept"))[0] == 404
    owner = await probe.make("owner")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner["metadata"]["uid"]}
    await probe.make("owned", ownerReferences=[reference])
    await probe.ask("DELETE", f"{PODS}/owner", {"preconditions": {"uid": owner["metadata"]["uid"]}})
    assert (await probe.ask("GET", f"{PODS}/owned"))[0] == 404
    budget = {
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    await probe.ask("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    await probe.make("safe", labels={"app": "x"})
    running = {"status": {"phase": "Running"}}
    await probe.ask("PATCH", f"{PODS}/safe/status", running, MERGE)
    assert (await probe.ask("POST", f"{PODS}/safe/eviction", {"metadata": {"name": "safe"}}))[0] == 429
    await probe.make("idle", labels={"app": "x"})
    assert (await probe.ask("POST", f"{PODS}/idle/eviction", {"metadata": {"name": "idle"}}))[0] == 201
    await probe.ask(
        "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {**budget, "metadata": {"name": "c"}}
    )
    assert (await probe.ask("POST", f"{PODS}/safe/eviction", {"metadata": {"name": "safe"}}))[0] == 500


async def patches() -> None:
    probe = Probe()
    await probe.make("a", labels={"x": "1", "y": "2"})
    steps = [{"op": "test", "path": "/metadata/labels/x", "value": "1"}, {"op": "remove", "path": "/metadata/labels/y"}]
    _, found = await probe.ask("PATCH", f"{PODS}/a", steps, "application/json-patch+json")
    assert found["metadata"]["labels"] == {"x": "1"}
    assert (await probe.ask("PATCH", f"{PODS}/a", steps, "application/json-patch+json"))[0] == 422
    one = {"type": "PodScheduled", "status": "False", "reason": "R"}
    await probe.ask("PATCH", f"{PODS}/a/status", {"status": {"conditions": [one]}}, STRATEGIC)
    two = {"type": "Ready", "status": "False"}
    _, found = await probe.ask("PATCH", f"{PODS}/a/status", {"status": {"conditions": [two]}}, STRATEGIC)
    assert [have["type"] for have in found["status"]["conditions"]] == ["PodScheduled", "Ready"]
    await probe.define()
    await probe.ask("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"gpus": 1}})
    assert (await probe.ask("PATCH", f"{JOBS}/j", {"spec": {}}, STRATEGIC))[0] == 415


async def schemas() -> None:
    probe = Probe()
    await probe.define()
    wrong = {"metadata": {"name": "j"}, "spec": {"tasks": 0}}
    status, said = await probe.ask("POST", JOBS, wrong)
    assert (status, said["reason"], "spec.tasks" in said["message"]) == (422, "Invalid", True)
    pruned = {"metadata": {"name": "j"}, "spec": {"gpus": 1, "gpu_memry": "1Gi"}}
    assert "gpu_memry" not in (await probe.ask("POST", JOBS, pruned))[1]["spec"]
    assert (await probe.ask("POST", f"{JOBS}?fieldValidation=Strict", pruned))[0] == 400
    loose = definitions()[0]
    loose["metadata"]["name"] = "things.gangline.dev"
    loose["spec"]["names"] = {**loose["spec"]["names"], "plural": "things", "kind": "Thing"}
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"properties": {}}
    assert (await probe.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", loose))[0] == 422
    bad_label = {"metadata": {"name": "l", "labels": {"k": "host:5000/x"}}, "spec": SPEC}
    assert (await probe.ask("POST", PODS, bad_label))[0] == 422
    assert (await probe.ask("POST", PODS, {"metadata": {"name": "Upper"}, "spec": SPEC}))[0] == 422


async def troubles() -> None:
    probe = Probe()
    probe.double.faults.add(Fault(path="/pods", status=429, reason="TooManyRequests"))
    assert (await probe.ask("GET", PODS))[0] == 429
    assert (await probe.ask("GET", PODS))[0] == 200
    closed = Double(lambda: 0.0, token="secret")
    assert (await closed.handle("GET", PODS)).status == 401
    assert (await closed.handle("GET", PODS, headers={"Authorization": "Bearer secret"})).status == 200


@pytest.mark.parametrize(
    "story",
    [writes, statuses, bindings, selectors, watches, deletions, patches, schemas, troubles],
    ids=lambda story: story.__name__,
)
def test_the_double_does_as_the_real_server_with(story: Any) -> None:
    live(story())
