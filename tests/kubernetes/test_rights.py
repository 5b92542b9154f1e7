"""The rights the chart asks for are the calls the service makes: none missing, none too many."""

import json
from typing import Any

import pytest
from tests.kubernetes.house import SERVICE_ACCOUNT, House, MemoryTransport, opened
from tests.kubernetes.test_adopted import make, quota_story
from tests.kubernetes.test_autoscaling import request_story
from tests.kubernetes.test_chart import check, rendered
from tests.kubernetes.test_devices import dra_story
from tests.kubernetes.test_elastic import scale_story
from tests.kubernetes.test_handing import made_for_story
from tests.kubernetes.test_native_groups import native_story, workload_story
from tests.kubernetes.test_owners import KIND, admitted_story, group_story, way_story
from tests.kubernetes.test_places import reach_story, volume_story
from tests.kubernetes.test_settings import settings_story
from tests.kubernetes.test_trouble import secret_story
from tests.kubernetes.test_whole_path import applied_story, names_story, preemption_story

import programs
from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.api import Answer
from gangline_kubernetes.owner_kinds import GROUPS, KINDS
from kubedouble.rights import request_of

NEEDED_FOR_OWNERS = {("gangline.dev", "jobs/finalizers", "update")}
"""No call of ours, but what the API server asks of whoever sets blockOwnerDeletion."""
SEEN_ELSEWHERE = {
    ("", "pods", "get"),
    *(("gangline.dev", kind, "get") for kind in ("jobs", "groups", "pools", "policyconfigs")),
    *((kind.group_version.partition("/")[0], kind.plural, "get") for kind in KINDS),
}
"""Only made when an answer was lost, or somebody else was faster; tests of trouble make them."""

pytestmark = pytest.mark.skipif(programs.found("helm") is None, reason=programs.why_not("helm"))

Right = tuple[str, str, str]


def right_of(method: str, path: str) -> Right:
    """Group, resource and verb of a call."""
    asked_for = request_of(method, path)
    assert asked_for is not None
    return asked_for.group, asked_for.resource, asked_for.verb


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> set[Right]:
    """Every right that calls of the service needed so far."""
    found: set[Right] = set()
    send, stream = MemoryTransport.send, MemoryTransport.stream

    async def noted(self: MemoryTransport, method: str, path: str, *rest: Any) -> Answer:
        if request_of(method, path) is not None:
            found.add(right_of(method, path))
        return await send(self, method, path, *rest)

    def watched(self: MemoryTransport, path: str, *rest: Any) -> object:
        group, resource, _ = right_of("GET", path)
        found.add((group, resource, "watch"))
        return stream(self, path, *rest)

    monkeypatch.setattr(MemoryTransport, "send", noted)
    monkeypatch.setattr(MemoryTransport, "stream", watched)
    return found


def asked(mode: str, *more: str, kinds: tuple[str, ...] = ("ClusterRole", "Role")) -> set[Right]:
    """What the chart's roles allow."""
    roles = [one for one in rendered([f"cluster.mode={mode}", *more]) if one["kind"] in kinds]
    return {
        (group, resource, verb)
        for role in roles
        if role["metadata"]["name"] == "release-gangline-kubernetes"
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def life_of_a_cluster() -> None:
    """Every kind of thing the service does when all goes well."""
    await applied_story()
    await preemption_story()
    await quota_story()
    await volume_story()
    await reach_story(False)
    await secret_story()
    await settings_story()
    await way_story()
    await names_story()
    await scale_story()
    for name in KIND:
        await admitted_story(name)
    for group in GROUPS[:3]:
        await group_story(group)
    await native_story("v1alpha2")
    await workload_story()
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "gated", gates=True)
        await house.until(lambda: bool(house.stored("/pods")[0]["spec"].get("nodeName")))


def test_rights_are_the_calls_that_are_made(calls: set[Right]) -> None:
    live(life_of_a_cluster())
    assert calls | NEEDED_FOR_OWNERS | SEEN_ELSEWHERE == asked("count")


def test_secrets_and_services_are_deleted_in_the_namespace_of_jobs_only_and_never_read() -> None:
    live(secret_story())
    kinds = ("secrets", "services")
    everywhere = asked("count", kinds=("ClusterRole",))
    assert {right for right in everywhere if right[1] in kinds} == {("", kind, "create") for kind in kinds}
    (role,) = (one for one in rendered([]) if one["kind"] == "Role")
    assert role["metadata"]["namespace"] == "gangline-jobs"
    assert asked("count", kinds=("Role",)) == {("", kind, "delete") for kind in kinds}


def test_mode_dra_needs_claims_and_slices_too(calls: set[Right]) -> None:
    live(dra_story())
    more = asked("dra") - asked("count")
    live(made_for_story())
    used = {right for right in calls if right[0] == "resource.k8s.io"}
    # Writing an allocation needs the right to bind as well where the server asks for it (from 1.36 on).
    assert used | {("resource.k8s.io", "resourceclaims/binding", "patch")} == more


def test_whoever_adopts_nothing_changes_no_claims_of_others() -> None:
    less = asked("dra") - asked("dra", "cluster.adopt=false")
    assert {right for right in less if right[0] == "resource.k8s.io"} == {
        ("resource.k8s.io", "resourceclaims", "patch"),
        ("resource.k8s.io", "resourceclaimtemplates", "list"),
        ("resource.k8s.io", "resourceclaimtemplates", "watch"),
    }


def test_asking_an_autoscaler_needs_rights_of_its_own(calls: set[Right]) -> None:
    live(request_story())
    more = asked("count", "cluster.provisioningClass=x") - asked("count")
    assert {right for right in calls if right[1] in ("provisioningrequests", "podtemplates")} == more


def test_whoever_adopts_nothing_may_do_nothing_to_objects_of_others() -> None:
    less = asked("count") - asked("count", "cluster.adopt=false")
    assert {one for one in less if not one[0]} == {
        ("", "persistentvolumeclaims", "get"),
        ("", "persistentvolumes", "get"),
    }
    assert {group for group, _, _ in less if group} == {
        "apps",
        "batch",
        "jobset.x-k8s.io",
        "kubeflow.org",
        "ray.io",
        "scheduling.x-k8s.io",
        "scheduling.volcano.sh",
        "scheduling.run.ai",
        "scheduling.k8s.io",
    }


def test_whoever_edits_a_namespace_may_submit_and_scale_jobs_and_whoever_views_it_sees_settings_only() -> None:
    roles = {one["metadata"]["name"]: one for one in rendered([]) if one["kind"] == "ClusterRole"}

    def rights(name: str, to: str) -> set[tuple[str, str]]:
        role = roles[f"release-gangline-{name}"]
        assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{to}"] == "true"
        return {(kind, verb) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}

    looks = {"get", "list", "watch"}
    writes = {"create", "update", "patch", "delete"}
    edits = {("jobs", verb) for verb in looks | writes} | {("jobs/scale", verb) for verb in ("get", "update", "patch")}
    assert rights("jobs-edit", "edit") == rights("jobs-edit", "admin") == edits
    kinds = ("groups", "pools", "policyconfigs")
    assert rights("view", "view") == {(kind, verb) for kind in kinds for verb in looks}
    more = roles["release-gangline-jobs-view"]
    assert not any("aggregate" in label for label in more["metadata"]["labels"]), "jobs may hold values of secrets"


async def answer_to(house: House, method: str, path: str) -> tuple[int, str]:
    """Status and message of what the service would be answered."""
    sent = await MemoryTransport(house.double).send(method, path, "", {}, "application/json", 5)
    return sent.status, sent.body.decode()


def test_every_test_of_the_service_has_the_rights_of_the_chart_and_no_others() -> None:
    live(enforced_story())


async def enforced_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        assert house.double.rights[SERVICE_ACCOUNT]
        status, why = await answer_to(house, "GET", "/api/v1/namespaces/team/secrets/any")
        assert status == 403
        assert 'cannot get resource \\"secrets\\" in API group \\"\\" in the namespace \\"team\\"' in why
        assert (await answer_to(house, "DELETE", "/api/v1/namespaces/team/secrets/any"))[0] == 403
        assert (await answer_to(house, "DELETE", "/api/v1/namespaces/gangline-jobs/secrets/any"))[0] == 404
        assert (await answer_to(house, "DELETE", "/api/v1/nodes"))[0] == 403
        assert (await answer_to(house, "GET", "/apis"))[0] == 200, "everybody may see which kinds there are"


def test_a_pod_that_may_not_be_bound_is_told_so_and_nothing_is_held_for_it() -> None:
    live(less_story())


async def less_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        rights = house.double.rights[SERVICE_ACCOUNT]
        house.double.rights[SERVICE_ACCOUNT] = tuple(one for one in rights if "pods/binding" not in one.resources)
        await make(house, "plain")
        await house.until(lambda: bool(house.world.state.kept.jobs) and house.job(1).state == JobState.FAILED)
        assert house.job(1).reason is not None
        assert "pods/binding" in str(house.job(1).reason)
        assert not house.world.state.kept.tasks


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every object that the service asked the server to make, by what it is."""
    found: dict[str, Any] = {}
    send = MemoryTransport.send

    async def noted(self: MemoryTransport, method: str, path: str, query: str, body: Any, *rest: Any) -> Answer:
        if method == "POST":
            found[f"{path}: {sorted(body.get('spec', ()))}"] = body
        return await send(self, method, path, query, body, *rest)

    monkeypatch.setattr(MemoryTransport, "send", noted)
    return found


@pytest.mark.parametrize("version", ["1.30", "1.34", "1.36"])
def test_every_object_that_is_made_is_valid_to_the_letter(made: dict[str, Any], version: str) -> None:
    live(life_of_a_cluster())
    live(request_story())
    kinds = {"Pod", "Binding", "Eviction", "Event", "Secret", "Service", "PodTemplate"}
    if version != "1.30":
        # The first version that has claims of this form is 1.34.
        live(dra_story())
        live(made_for_story())
        kinds.add("ResourceClaim")
    assert kinds <= {one["kind"] for one in made.values()}
    for one in made.values():
        labels = one["metadata"].get("labels") or {}
        common = {f"app.kubernetes.io/{word}" for word in ("name", "instance", "part-of", "managed-by")}
        assert one["kind"] in ("Binding", "Eviction", "Event") or common <= labels.keys(), one["kind"]
    for one in made.values():
        if not one["apiVersion"].startswith("autoscaling.x-k8s.io"):
            check(json.dumps(one, sort_keys=True), version)
